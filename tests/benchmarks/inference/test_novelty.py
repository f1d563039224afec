"""Images unlike the training images, with hand-computed cosines."""

from dataclasses import replace
from math import cos, pi

import numpy as np
import pytest
from index_tables import RECIPE, at, table_of

from frostbench.benchmarks.inference import novelty
from frostbench.benchmarks.inference.novelty import joined, novelty_of

TRAIN = (0.0, pi / 2)
VALIDATION = [n / 100 for n in range(1, 41)]
TEST = [0.2] * 10 + [0.6] * 5 + [pi / 2] * 5
FLOAT16 = 2e-3
"""Error of a cosine of vectors that are stored as float16."""


@pytest.fixture
def table():
    """Two training images at a right angle; images to set the threshold, and to measure it."""
    return table_of(at(*TRAIN, *VALIDATION, *TEST), [0, 1, *[0] * 60])


def ids(table, start, stop):
    return table.ids[start:stop].tolist()


def test_the_threshold_keeps_95_percent_and_false_alarms_are_those_of_other_images(table):
    found = novelty_of(table, ["x"], ids(table, 2, 42), ids(table, 42, 62))
    # The 5 % quantile of 40 cosines lies between the second and the third smallest, at 1.95 - 1 of the way.
    assert found.threshold == pytest.approx(cos(0.39) + 0.95 * (cos(0.38) - cos(0.39)), abs=FLOAT16)
    # Five of twenty test images are at 0.6 radians from the nearest training image.
    assert (found.false_alarms, found.measured_on) == (0.25, 20)
    assert found.ids.tolist() == ids(table, 0, 2)
    assert found.labels.tolist() == [0, 1]


def test_nearest_training_images_come_first(table):
    found = novelty_of(table, ["x"], ids(table, 2, 42), ids(table, 42, 62))
    rows, cosines = found.nearest([at(1.0)], 5)
    assert rows.tolist() == [[1, 0]]
    assert cosines[0].tolist() == pytest.approx([cos(pi / 2 - 1.0), cos(1.0)], abs=FLOAT16)


def test_without_test_images_one_half_sets_the_threshold_and_the_other_measures_it(table, monkeypatch):
    monkeypatch.setattr(novelty, "FEWEST", 20)
    only = ids(table, 2, 42)
    kept = novelty_of(table, ["x"], only, [])
    assert kept.measured_on == 20
    assert 0 <= kept.false_alarms <= 0.5


def test_too_few_validation_images_set_no_threshold(table):
    with pytest.raises(ValueError, match=r"At least 40 validation images are needed .* but there are 39"):
        novelty_of(table, ["x"], ids(table, 2, 41), ids(table, 42, 62))


def test_a_split_without_training_images_sets_no_threshold(table):
    everything = ids(table, 0, 62)
    with pytest.raises(ValueError, match="and no training images"):
        novelty_of(table, ["x"], everything[:42], everything[42:])


def test_columns_count_equally_whatever_their_scale(table):
    two = replace(
        table,
        columns={"x": table.columns["x"], "y": 50 * np.ones((62, 3), np.float16)},
        recipes={"x": RECIPE, "y": RECIPE},
    )
    found = novelty_of(two, ["x", "y"], ids(table, 2, 42), ids(table, 42, 62))
    one = novelty_of(table, ["x"], ids(table, 2, 42), ids(table, 42, 62))
    # The second column has the cosine 1 everywhere, so cosines are half-way to 1.
    assert found.threshold == pytest.approx((one.threshold + 1) / 2, abs=FLOAT16)
    assert np.linalg.norm(joined([at(0.3), 7 * at(1.0, 2.0)[:1]]), axis=1) == pytest.approx([1.0])
