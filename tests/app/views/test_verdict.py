"""The verdict and the table of all metrics."""

import math
from dataclasses import replace

import pytest
from hostile_pairs import with_line
from pages import Page

from frostbench.app.views.delta_table import delta_table_html
from frostbench.app.views.verdict import verdict_html
from frostbench.benchmarks.comparison.ab import Flips


class TestVerdict:
    @pytest.mark.parametrize(
        ("verdict", "state", "sentence"),
        [
            ("better", "b-better", "◆ B is better on Macro F1: B − A = +1.9 points"),
            ("worse", "a-better", "● A is better on Macro F1: B − A = +1.9 points"),
            ("can't tell", "cannot-tell", "Can’t tell on Macro F1: B − A = +1.9 points"),
        ],
    )
    def test_it_names_the_better_side_and_the_difference(self, few, verdict, state, sentence):
        page = Page(verdict_html(with_line(few, verdict=verdict, delta=0.0187, low=0.006, high=0.0311)))
        assert sentence.replace(" ", "") in page.text.replace("\xa0", "").replace(" ", "")
        assert "(95 % interval +0.6 to +3.1)" in page.text
        assert "Differences below about 1.3 points cannot be detected with these images and this seed." in page.text
        assert page.having("data-testid", "verdict")[0]["data-state"] == state
        assert "no difference" not in page.text

    def test_the_basis_is_described(self, few):
        page = Page(verdict_html(replace(few, flips=Flips({"fixes": 41.0, "breaks": 22.5}, {}))))
        assert (
            "Compared on the same 360 validation images, paired bootstrap over images, seed 0. B fixes 41 images "
            "and breaks 22.5." in page.text
        )

    def test_the_resampled_unit_is_named(self, few):
        text = Page(verdict_html(replace(few, comparison=replace(few.comparison, n_groups=40)))).text
        assert "Compared on the same 360 validation images in 40 groups, paired bootstrap over groups, seed 0." in text

    def test_the_test_rows_are_named(self, few):
        page = Page(verdict_html(replace(few, comparison=replace(few.comparison, role="test", seeds=(0, 1)))))
        assert "test images" in page.text
        assert "seeds 0, 1" in page.text
        assert "(mean over seeds)" in page.text
        assert page.having("data-role", "test")

    def test_a_reason_is_given(self, few):
        line = {"verdict": "can't tell (seeds)", "delta": 0.02, "low": 0.01, "high": 0.03}
        text = Page(verdict_html(with_line(few, **line))).text
        assert "but there is only one seed, so the variation over seeds is unknown." in text

    def test_what_would_confirm_a_difference_is_named(self, few):
        open_line = {"verdict": "can't tell", "delta": 0.02, "low": -0.01, "high": 0.05, "more_groups": 3.0}
        text = Page(verdict_html(with_line(few, **open_line))).text
        assert "If the difference is as large as it looks, about 3 times as many rows would confirm it." in text
        text = Page(verdict_html(with_line(few, **open_line | {"more_groups": math.nan, "more_seeds": 9.0}))).text
        assert "about 9 seeds would confirm it" in text
        assert "confirm" not in Page(verdict_html(with_line(few, verdict="better"))).text

    def test_images_of_one_group_have_no_interval(self, few):
        text = Page(verdict_html(with_line(few, delta=0.02, low=math.nan, high=math.nan))).text
        assert "There are too few groups of images for an interval." in text

    def test_another_metric_has_its_own_unit(self, few):
        text = Page(verdict_html(with_line(few, "nll", delta=-0.1, low=-0.2, high=0.0), "nll")).text
        assert "Log loss: B − A = −0.100 (95 % interval −0.200 to 0.000)".replace(" ", "") in text.replace(" ", "")


def test_the_delta_table_has_a_line_for_each_metric_with_mark_and_tint(few):
    found = with_line(few, "nll", verdict="worse", delta=0.0316, low=0.019, high=0.0441)
    page = Page(delta_table_html(found))
    assert len(page.having("data-metric")) == len(few.comparison.metrics)
    assert "by chance" not in page.text
    table = few.comparison.table.assign(judged=True)
    judged = Page(delta_table_html(replace(found, comparison=replace(few.comparison, table=table)))).text
    metrics = len(few.comparison.metrics)
    assert f"up to {0.05 * metrics:.1f} of the {metrics} metrics would be expected to show a verdict" in judged
    (nll,) = page.having("data-metric", "nll")
    assert nll["data-state"] == "a"
    assert "lower is better" in page.text
    assert "▼ A better" in page.text
    assert "+0.019 to +0.044" in page.text
    assert len([a for a in page.having("class") if "fb-won-a" in a["class"]]) == 2
    assert len(page.having("aria-hidden", "true")) >= len(few.comparison.metrics)
