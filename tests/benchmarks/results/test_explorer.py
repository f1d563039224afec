"""The page over all results: its data, and what it shows in a browser."""

import json

import pandas as pd
import pytest
from scipy.stats import rankdata

from frostbench.benchmarks.results.explorer.build import nemenyi, packed, page_of, regenerate

METHODS = {"plain": 0.70, "lda <b>": 0.74, "mlp": 0.72}
DATA = ("coins", "groceries", "plankton")


def results():
    lines = []
    for number, data in enumerate(DATA):
        for row, value in METHODS.items():
            for metric, shift in (("macro_f1_fg", 0.0), ("ece", -0.6)):
                is_base = row == "plain"
                delta = None if is_base else value - 0.70
                lines.append(
                    {"bench": "toy", "data": data, "backbone": "lite0", "row": row, "metric": metric}
                    | {"value": value + shift + 0.01 * number, "delta": delta}
                    | {"low": None if is_base else delta - 0.01, "high": None if is_base else delta + 0.01}
                    | {"verdict": None if is_base else "better", "seeds": 3, "seconds": 10 * value}
                )
    other = lines[0] | {"bench": "other", "row": "alone"}
    return pd.DataFrame([*lines, other])


def test_lines_hold_the_frame():
    frame, made = results(), packed(results())
    texts = made["texts"]
    back = [[texts[name][line[i]] for i, name in enumerate(texts)] for line in made["lines"]]
    assert [line[:5] for line in back] == frame[list(texts)[:5]].to_numpy().tolist()
    assert [line[6] for line in made["lines"]] == pytest.approx(frame["value"].tolist())
    assert made["lines"][0][7] is None
    assert "ece" in made["falling"]
    assert "macro_f1_fg" not in made["falling"]


def test_critical_values_are_those_of_demsar():
    # Table 5 (a) of Demšar, JMLR 2006.
    assert [round(value, 3) for value in nemenyi()[2:11]] == [
        1.96,
        2.344,
        2.569,
        2.728,
        2.85,
        2.948,
        3.031,
        3.102,
        3.164,
    ]


def test_names_cannot_end_the_script():
    frame = results().assign(row="</script><script>alert(1)</script>")
    assert page_of(frame).count("</script>") == 2


def test_a_page_is_written(tmp_path):
    (tmp_path / "tables").mkdir()
    results().to_csv(tmp_path / "tables" / "toy.csv", index=False)
    (line,) = regenerate(tmp_path)
    assert line.startswith(f"wrote {tmp_path / 'explorer.html'}, ")
    assert "http" not in (tmp_path / "explorer.html").read_text().replace("http://www.w3.org/2000/svg", "")


@pytest.fixture
def page(chromium, tmp_path):
    (tmp_path / "explorer.html").write_text(page_of(results()))
    opened, wrong = chromium.new_page(), []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.goto(f"file://{tmp_path / 'explorer.html'}")
    yield opened
    opened.close()
    assert wrong == []


def cells(page, column):
    return page.locator(f"#table tbody td:nth-child({column})").all_text_contents()


def test_the_table_is_sorted_and_filtered(page):
    assert page.locator("#count").text_content() == "9 results."
    assert cells(page, 4) == sorted(cells(page, 4), reverse=True)
    page.get_by_role("button", name="Row", exact=True).click()
    assert cells(page, 3) == sorted(cells(page, 3))
    assert page.locator("th", has_text="Row").get_attribute("aria-sort") == "ascending"
    page.get_by_label("Rows with").fill("LDA")
    assert set(cells(page, 3)) == {"lda <b>"}
    page.get_by_label("Data").select_option("coins")
    assert page.locator("#count").text_content() == "1 results."
    assert cells(page, 5) == ["+0.0400"]


def test_another_bench_has_its_own_filters(page):
    page.get_by_label("Data").select_option("plankton")
    page.get_by_label("Bench").select_option("other")
    assert page.get_by_label("Data").locator("option").all_text_contents() == ["all", "coins"]
    assert page.locator("#count").text_content() == "1 results."
    assert "Ranks need at least two rows" in page.locator("#ranks-note").text_content()


def test_mean_ranks_and_the_critical_difference(page):
    wanted = rankdata([-value for value in METHODS.values()])
    shown = page.locator("#ranks text:not(.soft)").all_text_contents()
    assert sorted(shown) == sorted(f"{row} {rank:.1f}" for row, rank in zip(METHODS, wanted, strict=True))
    critical = nemenyi()[3] * (3 * 4 / (6 * 3)) ** 0.5
    assert f"critical difference {critical:.2f}" in page.locator("#ranks-note").text_content()
    assert page.locator("#ranks .bar").count() == 1 + (critical < 2)
    page.get_by_label("Metric").select_option(label="ECE")
    assert "plain 1.0" in page.locator("#ranks text:not(.soft)").all_text_contents()


def test_fronts_join_the_rows_that_none_beats(page):
    assert page.locator("#front-ece circle").count() == 3
    (points,) = page.locator("#front-ece .front").evaluate_all("lines => lines.map(l => l.getAttribute('points'))")
    assert len(points.split()) == 3  # what is more accurate is also less calibrated here
    assert json.loads(page.locator("#data").text_content())["lines"]
