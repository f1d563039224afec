import itertools
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from colors import contrast, mixed, rgb

from frostbench.benchmarks.report.charts import (
    Curve,
    Interval,
    Reliability,
    forest_plot,
    learning_curves,
    reliability_diagram,
)
from frostbench.benchmarks.report.class_charts import class_histogram, confusion_matrix
from frostbench.benchmarks.report.svg import CHART_CSS, Scale, ticks

HOSTILE = ["<img onerror=alert(1)>", '"><script>x</script>', "a&b\x00\x1b]", "x" * 300, "雪の結晶", "\u202eflip"]
SVG = "{http://www.w3.org/2000/svg}"


def reliability(name, n=200):
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.2, 1, n)
    return Reliability(name, sure, rng.uniform(size=n) < sure)


CHARTS = {
    "forest": lambda names: forest_plot([Interval(n, 0.1, -0.1, 0.2, "better") for n in names], names[0], "delta"),
    "reliability": lambda names: reliability_diagram([reliability(n) for n in names[:2]], names[0]),
    "confusion": lambda names: confusion_matrix([(i, i, 7) for i in range(len(names))], names, names[0]),
    "curves": lambda names: learning_curves([Curve(n, [0.3, math.nan, 0.5], 3) for n in names[:4]], names[0], "loss"),
    "histogram": lambda names: class_histogram(names, [1000, 100, 10, 1, 0, 5], names[0]),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_well_formed_and_escapes_its_texts(name):
    drawing = CHARTS[name](HOSTILE)
    root = ET.fromstring(drawing)
    assert root.tag == f"{SVG}svg"
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "desc", "text", "line", "path", "rect", "circle", "polygon", "g")
    }
    assert "<img" not in drawing
    assert "\u202e" not in drawing
    assert root.find(f"{SVG}title").text == HOSTILE[0]
    assert root.find(f"{SVG}desc").text
    assert not re.search(r"nan|inf\b", drawing)


@pytest.mark.parametrize("name", CHARTS)
def test_everything_lies_inside_the_drawing(name):
    root = ET.fromstring(CHARTS[name](HOSTILE))
    _, _, width, height = map(float, root.get("viewBox").split())
    for element in root.iter():
        for x, y in (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy")):
            if element.get(x) is not None:
                assert -1 <= float(element.get(x)) <= width
                assert -1 <= float(element.get(y)) <= height


def marks(drawing, tag):
    return list(ET.fromstring(drawing).iter(f"{SVG}{tag}"))


def test_a_forest_says_its_verdicts_by_shape():
    items = [Interval("up", 0.2, 0.1, 0.3, "better"), Interval("no", 0.0, -0.1, 0.1, "can't tell")]
    items.append(Interval("down", -0.2, -0.3, -0.1, "worse"))
    drawing = forest_plot(items, "t", "delta")
    up, down = (np.array([p.split(",") for p in e.get("points").split()], float) for e in marks(drawing, "polygon"))
    (circle,) = marks(drawing, "circle")
    assert (up[:, 1] == up[:, 1].min()).sum() == 1
    assert (down[:, 1] == down[:, 1].max()).sum() == 1
    assert down[:, 0].mean() < float(circle.get("cx")) < up[:, 0].mean()


def test_a_forest_draws_intervals_to_scale():
    items = [Interval("a", 0.1, 0.0, 0.2), Interval("b", 0.1, -0.2, 0.4)]
    bars = [e for e in marks(forest_plot(items, "t", "delta"), "line") if "stroke-width:2.5" in e.get("style")]
    short, long = (float(e.get("x2")) - float(e.get("x1")) for e in bars)
    assert long / short == pytest.approx(3, rel=0.01)


def test_a_forest_of_nothing_but_zeros_is_drawn():
    drawing = forest_plot([Interval("same", 0.0, 0.0, 0.0)], "t", "delta")
    assert [e.text for e in marks(drawing, "text") if e.text == "same"] == ["same"]
    assert "nan" not in drawing


def test_a_reliability_diagram_puts_bins_at_their_accuracy():
    one = Reliability("m", np.array([0.31, 0.33, 0.95, 0.97]), np.array([False, True, True, True]))
    low, high = marks(reliability_diagram([one], "t"), "circle")[:2]
    place = Scale(0, 1, 262, 12)
    assert (float(low.get("cy")), float(high.get("cy"))) == pytest.approx((place(0.5), place(1.0)))


def test_a_confusion_matrix_holds_its_counts_and_shades_by_row():
    drawing = confusion_matrix([(0, 0, 8), (0, 1, 2), (1, 0, 1), (1, 1, 99)], ["a", "b"], "t")
    assert {"8", "2", "1", "99"} <= {e.text for e in marks(drawing, "text")}
    filled = [e.get("style") for e in marks(drawing, "rect") if "fill:none" not in e.get("style")]
    shades = [float(re.search(r"fill-opacity:([\d.]+)", style)[1]) for style in filled]
    assert shades == pytest.approx([0.4, 0.1, 0.005, 0.495], abs=1e-3)
    assert "107 of 110 rows on the diagonal" in drawing


def test_many_classes_are_cut_to_the_most_frequent_with_a_note():
    drawing = confusion_matrix([(i, i, i + 1) for i in range(60)], [f"c{i}" for i in range(60)], "t")
    names = {e.text for e in marks(drawing, "text")}
    assert "c59" in names
    assert "c19" not in names
    assert "Only the 40 most frequent of 60 classes are drawn" in drawing
    assert len(marks(class_histogram([f"c{i}" for i in range(500)], list(range(500)), "t"), "rect")) == 40


def test_a_histogram_is_logarithmic():
    bars = [float(e.get("width")) for e in marks(class_histogram(["a", "b", "c"], [1000, 100, 10], "t"), "rect")]
    assert bars[0] - bars[1] == pytest.approx(bars[1] - bars[2], abs=0.2)


def test_what_is_not_finite_is_left_out():
    items = [Interval("a", 0.1, 0.0, 0.2), Interval("gone", math.nan, math.nan, math.nan)]
    drawn = [
        forest_plot(items, "t", "delta"),
        learning_curves([Curve("c", [0.5, math.nan], 2)], "t", "loss"),
        reliability_diagram([Reliability("m", np.array([0.9, math.nan]), np.array([True, False]))], "t"),
        reliability_diagram([Reliability("m", np.array([math.nan]), np.array([False]))], "t"),
    ]
    assert not any(re.search(r"nan|inf\b", drawing) for drawing in drawn)
    assert len(marks(drawn[0], "circle")) == 1
    assert "gone has no value" in drawn[0]
    assert not marks(drawn[1], "polygon")
    assert "accuracy 1.000" in drawn[2]


@pytest.mark.parametrize(
    "name", ["x" * 40, "aaaaaaaaaaaa bbbbbbbbbbbb cccccccccccc d", "full with gelu before norm, lr=0.003 x12"]
)
def test_a_forest_has_room_for_names_of_forty_characters(name):
    assert len(name) == 40
    lines = marks(forest_plot([Interval(name, 0.1, 0.0, 0.2), Interval("b", 0.1, 0.0, 0.2)], "t", "delta"), "text")
    shown = [e for e in lines if e.get("text-anchor") == "end"]
    assert "".join(e.text for e in shown).replace(" ", "") == name.replace(" ", "") + "b"
    assert max(len(e.text) for e in shown) <= 22
    heights = [float(e.get("y")) for e in shown]
    assert all(second - first >= 12 for first, second in itertools.pairwise(heights))


def test_axes_of_huge_values_are_drawn_and_endless_ones_have_no_ticks():
    ET.fromstring(forest_plot([Interval("a", 1e14, -1e15, 3e15)], "t", "delta"))
    assert ticks(-1e300, 1e300) == [-1e300, -5e299, 0.0, 5e299, 1e300]
    assert ticks(math.nan, 1) == ticks(0, math.inf) == ticks(-1e308, 1e308) == []


@pytest.mark.parametrize(
    ("low", "high"),
    [(-0.61, 0.13), (0, 1), (0.001, 0.002), (-5e5, 3e6), (2, 2), (3e14, 9e15), (1e-15, 4e-15), (1e16, 1e16 + 2)],
)
def test_ticks_are_few_round_and_inside(low, high):
    found = ticks(low, high)
    assert 1 <= len(found) <= 5
    assert all(low - 1e-9 * abs(low) <= v <= high + 1e-9 * abs(high) for v in found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_marks_stand_out_from_the_paper(scheme):
    """WCAG 2.2, 1.4.3: 4.5 to 1 for words, which ink, muted and every series are used for."""
    light, dark = CHART_CSS.split("@media")
    found = re.findall(r"--chart-(\w+): (#\w{6})", light if scheme == "light" else dark)
    colors = {name: rgb(code) for name, code in found}
    for name in ("ink", "muted", "1", "2", "3", "4"):
        assert contrast(colors[name], colors["paper"]) >= 4.5, name
    for name in ("1", "2"):
        assert contrast(colors["ink"], mixed(colors[name], colors["paper"], 0.5)) >= 4.5, name
