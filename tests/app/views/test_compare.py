"""The whole comparison, and what holds of each of its pieces."""

import math
import re
from dataclasses import replace

import pandas as pd
import pytest
from hostile_pairs import HOSTILE, QUOTES, with_line
from pages import Page

from frostbench.app.views.compare import compare_html, impossible_html
from frostbench.app.views.confusion import confusion_change_html, confusion_html
from frostbench.app.views.delta_table import delta_table_html
from frostbench.app.views.facts import costs_html, notes_html, options_diff_html
from frostbench.app.views.formatting import change
from frostbench.app.views.per_class import per_class_html
from frostbench.app.views.reliability import reliability_html
from frostbench.app.views.verdict import verdict_html
from frostbench.benchmarks.comparison.changes import Change

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


def test_the_table_of_a_pair_is_not_touched(few):
    before = few.comparison.table.copy()
    compare_html(few)
    pd.testing.assert_frame_equal(few.comparison.table, before)
