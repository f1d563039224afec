from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from frostbench.benchmarks.report.map_chart import HEIGHT, LEGEND, MOST_POINTS, STYLES, WIDTH, map_svg, write_map_page


def points(n: int, classes: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2)) * [5, 1]
    return pd.DataFrame(
        {"id": [f"<{i}>" for i in range(n)], "label": np.arange(n) % classes, "x": x[:, 0], "y": x[:, 1]}
    )


def circles(svg: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("circle")]


def test_a_chart_is_xml_with_one_named_mark_for_each_row() -> None:
    svg = map_svg(points(40, 3).assign(label=["a&b", "c", "d", "e"] * 10), "a < b")
    titles = [one.text for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("title")]
    assert titles[0] == "a < b"
    assert sorted(titles[1:]) == sorted(f"<{i}>: {['a&b', 'c', 'd', 'e'][i % 4]}" for i in range(40))


def test_points_keep_their_proportions_and_lie_inside() -> None:
    frame = pd.DataFrame({"id": list("abc"), "label": "one", "x": [0.0, 4.0, 0.0], "y": [0.0, 0.0, 1.0]})
    a, b, c = ((float(one.get("cx")), float(one.get("cy"))) for one in circles(map_svg(frame, "t"))[:3])
    assert abs((b[0] - a[0]) - 4 * (a[1] - c[1])) < 0.5
    assert all(0 < x < WIDTH - LEGEND and 0 < y < HEIGHT for x, y in (a, b, c))
    assert map_svg(frame.assign(x=1.0, y=1.0), "all at one place").count("<circle") == 4


def test_many_classes_share_a_ring_and_many_rows_are_thinned(tmp_path: Path) -> None:
    frame = points(MOST_POINTS + 500, len(STYLES) + 4)
    svg = map_svg(frame, "t")
    assert "4 other classes" in svg
    assert svg.count("<g><title>") == MOST_POINTS
    page = write_map_page(frame, "t", tmp_path / "map.html").read_text()
    assert f"{MOST_POINTS} of {MOST_POINTS + 500} rows are shown" in page
