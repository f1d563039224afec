"""Classes that changed, and the change of their confusions."""

import re
from dataclasses import replace

from pages import Page

from frostbench.app.views.compare import compare_html
from frostbench.app.views.confusion import confusion_change_html, confusion_html
from frostbench.app.views.per_class import MOST, per_class_html
from frostbench.benchmarks.comparison.class_deltas import CellChange


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

    def test_many_classes_are_cut_and_the_rest_is_summarised(self, many):
        page = Page(per_class_html(many))
        assert len(page.having("data-class")) == MOST
        (counts,) = re.findall(r"20 more classes: (\d+) up, (\d+) down, (\d+) unchanged, between", page.text)
        assert sum(map(int, counts)) == 20
        assert len(compare_html(many)) < 200_000


class TestConfusion:
    def cells(self, text):
        return re.findall(r'<td class="fb-cell([^"]*)">([^<]*)</td>', text)

    def test_good_and_bad_depend_on_sign_and_cell(self, few):
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
        assert "▲ class 002 predicted as class 003 : 4 fewer" in words
        assert "▼ class 003 predicted as class 002 : 2.5 more" in words

    def test_only_the_classes_with_most_change_are_drawn(self, many):
        text = confusion_change_html(many)
        assert len(self.cells(text)) == 14 * 14
        assert "The 14 of 50 classes that changed most." in Page(text).text

    def test_identical_predictions_are_stated(self, few):
        text = confusion_change_html(replace(few, confusion=()))
        assert "A and B predicted the same class for every image." in text
        assert 'data-state="empty"' in text

    def test_each_side_has_its_own_matrix(self, many):
        a, b = (confusion_html(many, name) for name in "AB")
        assert 'aria-label="Confusion of A, seed 0"' in a
        assert "The 20 of 50 classes with the most images." in b
