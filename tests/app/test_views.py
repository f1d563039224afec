import math
import re
from dataclasses import replace

import pandas as pd
import pytest
from colors import contrast, mixed, rgb
from pages import Page
from pydantic import TypeAdapter

from app.views.compare import compare_html, impossible_html
from app.views.confusion import confusion_change_html, confusion_html
from app.views.delta_table import delta_table_html
from app.views.facts import costs_html, notes_html, options_diff_html
from app.views.per_class import MOST, per_class_html
from app.views.reliability import reliability_html
from app.views.sheet import stylesheet
from app.views.verdict import verdict_html
from app.views.words import change
from benchmarks.ab import Flips, pair
from benchmarks.changes import Change
from benchmarks.class_deltas import CellChange
from benchmarks.record import RunRecord
from benchmarks.speed.fake_runs import write_fake_runs
from benchmarks.store import read_record, run_folder

HOSTILE = "<img src=x onerror=alert(1)>"
QUOTES = "\"'><script>alert(2)</script>\x00\u202e"


def made(folder, classes):
    keys = write_fake_runs(folder, rows=60 * classes, classes=classes)
    for key in keys:
        record = read_record(folder, key)
        names = (HOSTILE, QUOTES, *record.data.class_names[2:])
        data = replace(record.data, class_names=names, cache=HOSTILE, columns=(QUOTES,), warnings=(HOSTILE,))
        (run_folder(folder, key) / "record.json").write_bytes(
            TypeAdapter(RunRecord).dump_json(replace(record, data=data))
        )
    return pair(folder, keys[:1], keys[1:], resamples=200)


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A pair over six classes, two of them named by an attacker."""
    return made(tmp_path_factory.mktemp("few"), 6)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return made(tmp_path_factory.mktemp("many"), 50)


def with_line(found, metric="macro_f1_fg", **values):
    """The pair with other figures in B's line of a metric."""
    table = found.comparison.table.copy()
    chosen = (table["row"] == "B") & (table["metric"] == metric)
    for name, value in values.items():
        table.loc[chosen, name] = value
    return replace(found, comparison=replace(found.comparison, table=table))


PIECES = {
    "verdict": verdict_html,
    "delta-table": delta_table_html,
    "per-class": per_class_html,
    "confusion-change": confusion_change_html,
    "confusion-a": lambda found: confusion_html(found, "A"),
    "confusion-b": lambda found: confusion_html(found, "B"),
    "reliability": reliability_html,
    "notes": notes_html,
    "options-diff": options_diff_html,
    "costs": costs_html,
}


class TestEveryPiece:
    @pytest.mark.parametrize("name", PIECES)
    def test_it_closes_its_tags_and_is_found_by_its_attributes(self, few, name):
        page = Page(PIECES[name](few))
        assert (page.wrong, page.open) == ([], [])
        (piece,) = page.having("data-testid", name)
        assert (piece["data-role"], piece["data-run"]) == ("select", "fake-a fake-b")
        assert "fb" in piece["class"].split()

    @pytest.mark.parametrize("name", PIECES)
    def test_names_are_text(self, few, name):
        options = (Change(HOSTILE, QUOTES, HOSTILE),)
        page = Page(PIECES[name](replace(few, options=options, left_out=(QUOTES,))))
        assert not {"img", "script"} & {tag for tag, _ in page.tags}
        assert not [attrs for _, attrs in page.tags if {"onerror", "src"} & set(attrs)]
        assert "\x00" not in page.text
        assert "\u202e" not in page.text
        if name in ("per-class", "confusion-change", "options-diff"):
            assert "<img" in page.text

    @pytest.mark.parametrize("name", PIECES)
    def test_it_asks_nobody_for_anything_and_names_no_colour(self, few, name):
        text = PIECES[name](few)
        assert not re.search(r"url\(|https?://(?!www\.w3\.org/2000/svg)", text)
        assert not re.findall(r"(?<!var\(--chart-)(?<!, )#[0-9a-fA-F]{6}", re.sub(r"var\([^)]*\)", "", text))

    @pytest.mark.parametrize("name", PIECES)
    def test_what_has_no_figures_says_so(self, few, name):
        lost = with_line(few, **dict.fromkeys(("value", "delta", "low", "high"), math.nan))
        classes = tuple(replace(row, f1=(0.5, math.nan), low=math.nan, high=math.nan) for row in few.classes)
        text = PIECES[name](replace(lost, classes=classes, resolution=math.nan))
        assert not re.search(r"\bnan\b|\binf\b", Page(text).text.lower())
        assert not re.search(r'="[^"]*nan', text)


class TestVerdict:
    @pytest.mark.parametrize(
        ("verdict", "state", "words"),
        [
            ("better", "b-better", "◆ B is better on Macro F1: B − A = +1.9 points"),
            ("worse", "a-better", "● A is better on Macro F1: B − A = +1.9 points"),
            ("can't tell", "cannot-tell", "Can’t tell on Macro F1: B − A = +1.9 points"),
        ],
    )
    def test_it_says_who_is_better_by_how_much(self, few, verdict, state, words):
        page = Page(verdict_html(with_line(few, verdict=verdict, delta=0.0187, low=0.006, high=0.0311)))
        assert words.replace(" ", "") in page.text.replace("\xa0", "").replace(" ", "")
        assert "(95 % interval +0.6 to +3.1)" in page.text
        assert "Differences below about 1.3 points can’t be seen with this set." in page.text
        assert page.having("data-testid", "verdict")[0]["data-state"] == state
        assert "no difference" not in page.text

    def test_it_says_on_what_it_rests(self, few):
        page = Page(verdict_html(replace(few, flips=Flips({"fixes": 41.0, "breaks": 22.5}, {}))))
        assert "Same 360 validation images, paired bootstrap, seed 0. B fixes 41 images and breaks 22.5." in page.text

    def test_the_test_rows_are_named(self, few):
        page = Page(verdict_html(replace(few, comparison=replace(few.comparison, role="test", seeds=(0, 1)))))
        assert "test images" in page.text
        assert "seeds 0, 1" in page.text
        assert "(mean over seeds)" in page.text
        assert page.having("data-role", "test")

    def test_a_reason_is_given_in_words(self, few):
        line = {"verdict": "can't tell (seeds)", "delta": 0.02, "low": 0.01, "high": 0.03}
        assert "but the seeds are too few or differ too much." in Page(verdict_html(with_line(few, **line))).text

    def test_another_metric_has_its_own_unit(self, few):
        text = Page(verdict_html(with_line(few, "nll", delta=-0.1, low=-0.2, high=0.0), "nll")).text
        assert "Log loss: B − A = −0.100 (95 % interval −0.200 to 0.000)".replace(" ", "") in text.replace(" ", "")


def test_the_delta_table_has_a_line_for_each_metric_with_mark_and_tint(few):
    found = with_line(few, "nll", verdict="worse", delta=0.0316, low=0.019, high=0.0441)
    page = Page(delta_table_html(found))
    assert len(page.having("data-metric")) == len(few.comparison.metrics)
    (nll,) = page.having("data-metric", "nll")
    assert nll["data-state"] == "a"
    assert "lower is better" in page.text
    assert "▼ A better" in page.text
    assert "+0.019 to +0.044" in page.text
    assert len([a for a in page.having("class") if "fb-won-a" in a["class"]]) == 2
    assert len(page.having("aria-hidden", "true")) >= len(few.comparison.metrics)


class TestPerClass:
    def rows(self, text):
        return [attrs["data-class"] for attrs in Page(text).having("data-class")]

    def test_the_largest_change_comes_first_or_the_most_trained(self, few):
        by_change = [row.name for row in sorted(few.classes, key=lambda row: -abs(row.delta))]
        by_training = [row.name for row in sorted(few.classes, key=lambda row: -row.train)]
        plain = [name for name in by_change if name.startswith("class")]
        assert [name for name in self.rows(per_class_html(few)) if name.startswith("class")] == plain
        assert self.rows(per_class_html(few, "training"))[2:] == by_training[2:]
        assert plain != by_training[2:]

    def test_a_class_without_images_is_shown_last_without_figures(self, few):
        empty = replace(few.classes[3], support=0, f1=(0.0, 0.9))
        text = per_class_html(replace(few, classes=(*few.classes[:3], empty, *few.classes[4:])))
        last = Page(text).having("data-class")[-1]
        assert (last["data-class"], last["data-state"]) == (empty.name, "empty")
        assert "no images here — —" in Page(text).text
        assert "+90" not in Page(text).text

    def test_thin_classes_are_pale(self, few):
        thin = replace(few.classes[2], thin=True)
        page = Page(per_class_html(replace(few, classes=(thin, *few.classes[3:]))))
        (row,) = page.having("data-state", "thin")
        assert "fb-pale" in row["class"]
        assert row["data-class"] == thin.name

    def test_many_classes_are_cut_and_the_rest_is_told(self, many):
        page = Page(per_class_html(many))
        assert len(page.having("data-class")) == MOST
        (told,) = re.findall(r"20 more classes: (\d+) up, (\d+) down, (\d+) unchanged, between", page.text)
        assert sum(map(int, told)) == 20
        assert len(compare_html(many)) < 200_000


class TestConfusion:
    def cells(self, text):
        return re.findall(r'<td class="fb-cell([^"]*)">([^<]*)</td>', text)

    def test_good_and_bad_are_told_by_sign_and_place(self, few):
        changes = (CellChange(2, 2, 4.0), CellChange(2, 3, -4.0), CellChange(3, 2, 2.5), CellChange(3, 3, -2.0))
        text = confusion_change_html(replace(few, confusion=changes))
        assert self.cells(text) == [
            (" fb-good fb-shade-5 fb-own", "+4"),
            (" fb-good fb-shade-5", "−4"),
            (" fb-bad fb-shade-3", "+2.5"),
            (" fb-bad fb-shade-2 fb-own", "−2"),
        ]
        words = Page(text).text
        assert "true ↓ predicted →" in words
        assert "▲ class 002 taken for class 003 : 4 fewer" in words
        assert "▼ class 003 taken for class 002 : 2.5 more" in words

    def test_only_the_classes_with_most_change_are_drawn(self, many):
        text = confusion_change_html(many)
        assert len(self.cells(text)) == 14 * 14
        assert "The 14 classes that changed most, of 50. Elsewhere" in Page(text).text

    def test_the_same_predictions_are_said_in_words(self, few):
        text = confusion_change_html(replace(few, confusion=()))
        assert "A and B predicted the same class for every image." in text
        assert 'data-state="empty"' in text

    def test_each_side_has_its_own_matrix(self, many):
        a, b = (confusion_html(many, name) for name in "AB")
        assert 'aria-label="Confusion of A, seed 0"' in a
        assert "The 20 classes with most images, of 50." in b


class TestReliability:
    def test_two_panels_where_a_temperature_was_fitted_and_one_where_none_was(self, few):
        page = Page(reliability_html(few))
        assert "When it says 80 %, is it right 80 % of the time?" in page.text
        assert [attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"] == [
            "Reliability, before calibration",
            "Reliability, after calibration",
        ]
        plain = tuple(replace(side, temperatures=(1.0,), before=side.after) for side in few.sides)
        once = Page(reliability_html(replace(few, sides=plain)))
        assert "No calibration was fitted" in once.text
        assert sum(tag == "svg" for tag, _ in once.tags) == 1

    def test_a_has_circles_and_b_dashes_and_diamonds(self, few):
        text = reliability_html(few)
        assert re.search(r"<circle [^>]*fill:var\(--A\)", text)
        assert re.search(r"<polygon [^>]*fill:var\(--B\)", text)
        assert re.search(r"<path [^>]*stroke:var\(--B\);stroke-width:2;stroke-dasharray:6 4", text)
        assert f"{100 * few.sides[1].after.ece:.1f} %" in text


class TestFacts:
    def test_options_that_differ_are_counted(self, few):
        assert "B differs from A in 1 option." in Page(options_diff_html(few)).text
        two = (Change("train.optim.lr", "0.1", "0.2"), Change("head.classifier.c", None, "1.0"))
        page = Page(options_diff_html(replace(few, options=two)))
        assert "in 2 options. Change one at a time" in page.text
        assert "head.classifier.c — 1.0" in page.text
        assert "A and B have the same options." in options_diff_html(replace(few, options=()))

    def test_runs_that_were_left_out_come_first(self, few):
        found = replace(few, left_out=("Seed 3 of B is left out.",))
        assert Page(notes_html(found)).text.startswith("Notes Seed 3 of B is left out. <img")

    def test_an_unknown_size_is_a_dash(self, few):
        assert "Numbers in the head — —" in Page(costs_html(few)).text


def test_the_whole_is_a_page_in_the_order_in_which_it_is_read(few):
    page = Page(compare_html(few))
    assert page.wrong == page.open == []
    found = [attrs["data-testid"] for attrs in page.having("data-testid")]
    assert found[0] == "compare"
    wanted = [
        "verdict",
        "delta-table",
        "per-class",
        "confusion-change",
        "reliability",
        "options-diff",
        "costs",
        "notes",
    ]
    assert [name for name in found if name in wanted] == wanted


def test_what_stands_in_the_way_is_text():
    text = impossible_html(ValueError(f"Pick two finished runs. {HOSTILE}"))
    assert "&lt;img" in text
    assert 'data-state="impossible"' in text


def test_changes_have_true_minus_signs_and_no_signed_zero():
    assert [change(v) for v in (1.94, -0.04, 0.0, -12.25, math.nan)] == ["+1.9", "0.0", "0.0", "−12.2", "—"]


PAPERS = {"light": ("#ffffff", "#27272a", "#52525b"), "dark": ("#27272a", "#f4f4f5", "#d4d4d8")}
"""Gradio's panel, its text and its subdued text, with the neutral hue zinc."""


@pytest.mark.parametrize("theme", PAPERS)
def test_marks_stand_out_three_to_one_and_words_four_and_a_half(theme):
    """WCAG 2.2, 1.4.11 and 1.4.3; the strongest tints are those of the style sheet."""
    css, (paper, ink, muted) = stylesheet(), map(rgb, PAPERS[theme])
    colors = {name: rgb(code) for name, code in re.findall(r"--(A|B|good|bad|grey): (#\w{6});", css)}
    assert set(colors) == {"A", "B", "good", "bad", "grey"}
    for name, color in colors.items():
        assert contrast(color, paper) >= 3, name
    # Half is the darkest cell of a side's own confusion matrix.
    shades = [0.5, *(int(v) / 100 for v in re.findall(r"--shade: (\d+)%", css))]
    for name in ("good", "bad"):
        assert contrast(ink, mixed(colors[name], paper, max(shades))) >= 4.5, name
    # The hatch of bad cells lies over their tint.
    hatched = mixed(colors["bad"], mixed(colors["bad"], paper, max(shades[1:])), 0.3)
    assert contrast(ink, hatched) >= 4.5
    for name in ("A", "B"):
        assert contrast(muted, mixed(colors[name], paper, 0.22)) >= 4.5, name
    assert contrast(muted, paper) >= 4.5


def test_only_marks_take_a_side_s_colour():
    colored = re.findall(r"([^{}]+)\{[^{}]*(?<![-\w])color: var\(--(?:A|B|good|bad|grey)\)", stylesheet())
    assert colored
    assert all(".fb-key" in selector for selector in colored)


def test_every_rule_stays_below_the_root():
    css = re.sub(r"/\*.*?\*/", "", stylesheet(), flags=re.S)
    selectors = [part.strip() for block in re.findall(r"([^{}@]+)\{", css) for part in block.split(",")]
    assert all(one.startswith((".fb ", ".fb.", ".fb")) or one.startswith("media") for one in selectors)


def test_the_table_of_a_pair_is_not_touched(few):
    before = few.comparison.table.copy()
    compare_html(few)
    pd.testing.assert_frame_equal(few.comparison.table, before)
