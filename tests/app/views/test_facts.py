"""Reliability, options, notes and costs."""

import re
from dataclasses import replace

from pages import Page

from frostbench.app.views.facts import costs_html, notes_html, options_diff_html
from frostbench.app.views.reliability import reliability_html
from frostbench.benchmarks.comparison.changes import Change


class TestReliability:
    def test_two_panels_where_a_temperature_was_fitted_and_one_where_none_was(self, few):
        page = Page(reliability_html(few))
        assert "Is a confidence of 80 % correct 80 % of the time?" in page.text
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
        assert f"{100 * few.sides[1].ece:.1f} %" in text


class TestFacts:
    def test_options_that_differ_are_counted(self, few):
        assert "B differs from A in 1 option." in Page(options_diff_html(few)).text
        two = (Change("train.optim.lr", "0.1", "0.2", "Learning rate"), Change("head.classifier.c", None, "1.0"))
        page = Page(options_diff_html(replace(few, options=two)))
        assert "in 2 options. Change one at a time" in page.text
        assert "Learning rate train.optim.lr 0.1 0.2" in page.text
        assert "head.classifier.c — 1.0" in page.text
        assert "A and B have the same options." in options_diff_html(replace(few, options=()))

    def test_runs_that_were_left_out_come_first(self, few):
        found = replace(few, left_out=("Seed 3 of B is left out.",))
        assert Page(notes_html(found)).text.startswith("Notes Seed 3 of B is left out. <img")

    def test_an_unknown_size_is_a_dash(self, few):
        assert "Parameters of the head — —" in Page(costs_html(few)).text
