import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from frostbench.embedcache.given.classes import class_notes, read_labels
from frostbench.embedcache.given.columns import read_cells

TEXTS = ["b", "a", "b"]


@pytest.mark.parametrize(
    "column",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        np.array(TEXTS, dtype=np.dtypes.StringDType()),
        pd.Series(TEXTS, index=[7, 3, 1]),
        pd.Series(TEXTS, dtype="string"),
        pd.Categorical(TEXTS, categories=["b", "c", "a"]),
        pd.Series(TEXTS, dtype="category"),
        pd.Index(TEXTS),
        pa.array(TEXTS),
        pa.chunked_array([TEXTS]),
        [np.str_(text) for text in TEXTS],
    ],
    ids=lambda column: type(column).__name__,
)
def test_text_of_every_container_gives_the_same_classes(column):
    found = read_labels(column)
    assert (found.names, found.class_names, found.values.tolist()) == (TEXTS, ("a", "b"), ["a", "b"])


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ([10, -1, 9], np.int64),
        (np.array([10, -1, 9], np.int8), np.int8),
        (np.array([10, -1, 9], ">i4"), np.int32),
        (np.array([10, -1, 9], np.float32), np.float32),
        (np.array([10, -1, 9], dtype=object), object),
        (np.ma.array([10, -1, 9], np.int16, mask=False), np.int16),
        (torch.tensor([10, -1, 9], dtype=torch.int16), np.int16),
        ([torch.tensor(10), torch.tensor(-1), torch.tensor(9)], np.int64),
        (pd.Series([10, -1, 9], dtype="Int64"), np.int64),
        (pd.Categorical([10, -1, 9]), np.int64),
        (pa.array([10, -1, 9]), np.int64),
    ],
)
def test_numbers_are_in_their_order_and_keep_their_type(column, dtype):
    found = read_labels(column)
    assert (found.names, found.class_names) == (["10", "-1", "9"], ("-1", "9", "10"))
    assert found.values.tolist() == [-1, 9, 10]
    assert found.values.dtype == dtype


def test_booleans_are_labels():
    found = read_labels(np.array([True, False]))
    assert (found.names, found.class_names, found.values.dtype) == (["True", "False"], ("False", "True"), bool)
    assert read_labels(np.array([True, False]), ["no", "yes"]).names == ["yes", "no"]


@pytest.mark.parametrize(
    "gap", [None, np.nan, pd.NA, pd.NaT, "", "  ", "\u00a0", "\u200b", "\ufeff\t", "\u3164"], ids=ascii
)
def test_missing_labels_are_counted_and_the_first_is_named(gap):
    with pytest.raises(ValueError, match=r"2 of 4 are missing \(NaN, None or blank\), the first in row 1"):
        read_labels(["a", gap, "b", gap])
    with pytest.raises(ValueError, match=r"1 of 2 is missing .* row 1"):
        read_labels(pd.Series(["a", gap]))


def test_missing_numbers_masked_entries_and_categories_are_counted():
    for column in (
        np.array([1, np.nan]),
        np.ma.array([1, 2], mask=[False, True]),
        pd.Series([1, None], dtype="Int64"),
        pd.Categorical(["a", None]),
        pa.array(["a", None]),
        torch.tensor([1.0, torch.nan]),
    ):
        with pytest.raises(ValueError, match=r"1 of 2 is missing .* row 1"):
            read_labels(column)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, "1"], "one type, got integers and text, so that 1 and '1' would be merged"),
        ([1, True], "one type, got booleans and integers"),
        ([0.5, 1], r"must be whole numbers below 2\*\*53, but row 0 holds 0.5"),
        ([1, np.inf], r"must be whole numbers below 2\*\*53, but row 1 holds inf"),
        (["a", b"b"], "row 1 holds b'b' of type bytes"),
        ([("a", 1), ("b", 2)], "of type tuple"),
        (np.array(["2024-01-31"], "datetime64[D]"), "of type date"),
        (np.eye(3, dtype=int), r"a column \[N\], got int64 \[3, 3\].*argmax"),
        (np.array(1), "a column"),
        ({"a": 1}, "N values, got dict"),
        ({1, 2}, "N values, got set"),
        ("ab", "N values, got str"),
        (None, "N values, got NoneType"),
    ],
    ids=lambda value: re.sub(r"\W+", "-", str(value))[:20],
)
def test_what_is_no_label_is_refused(column, message):
    with pytest.raises(ValueError, match=message):
        read_labels(column)


def test_a_class_list_is_the_order_and_the_full_set():
    by_place = read_labels(np.array([2, 0], np.uint8), ["pear", "apple", "fig", "absent"])
    assert (by_place.names, by_place.class_names) == (["fig", "pear"], ("pear", "apple", "fig", "absent"))
    assert (by_place.values.tolist(), by_place.values.dtype) == ([0, 1, 2, 3], np.uint8)
    by_name = read_labels(["fig", "pear"], pd.Index(["pear", "apple", "fig"]))
    assert (by_name.class_names, by_name.values.tolist()) == (("pear", "apple", "fig"), ["pear", "apple", "fig"])
    by_number = read_labels([7, 5], [7, 6, 5])
    assert (by_number.names, by_number.class_names) == (["7", "5"], ("7", "6", "5"))
    assert by_number.values.tolist() == [7, 6, 5]


def test_a_list_of_more_places_than_the_label_type_counts_gives_a_wider_type():
    found = read_labels(np.array([0, 1], np.uint8), [f"c{i}" for i in range(300)])
    assert found.values.tolist() == list(range(300))


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 1], ["a", "b", "a"], r"must name each class once, but \['a'\] are repeated"),
        ([0, 1], ["a", " "], "entry 1 is blank"),
        ([], [], "once, but it is empty"),
        ([0, 2], ["a", "b"], "indices into class_names, 0 to 1, got 0 to 2"),
        ([-1, 0], ["a", "b"], "got -1 to 0"),
        (["a", "c"], ["a", "b"], r"\['c'\] are not among its 2 entries \['a', 'b'\]"),
        ([1, 3], [1, 2], r"\[3\] are not among"),
        (["1"], [1, 2], r"\['1'\] are not among its 2 .* in the type of the labels"),
        ([1], [True, False], r"\[1\] are not among"),
    ],
)
def test_lists_that_do_not_fit_are_refused(labels, names, message):
    with pytest.raises(ValueError, match=message):
        read_labels(labels, names)


def test_classes_without_rows_and_names_of_missing_values_are_reported():
    assert class_notes(["a", "b"], ["a", "b"]) == []
    (note,) = class_notes(["a"], ["a", "b", "c"])
    assert note.startswith("2 of 3 classes have no rows")
    assert note.endswith("b, c.")
    (note,) = class_notes(["nan", "b"], ["b", "nan"])
    assert "look like missing labels: 'nan'. Drop" in note


def test_groups_may_be_missing_and_numbers_with_gaps_stay_whole():
    assert read_cells(pd.Series([3, None, 4]), "groups") == [3, None, 4]
    assert read_cells(["g", None, np.nan, pd.NA, ""], "groups") == ["g", None, None, None, None]


@pytest.mark.parametrize("column", [[2.0**53, 1.0], pd.Series([2**53 + 1, 1, None]), np.array([-(2.0**60)])])
def test_floating_point_numbers_that_stand_for_several_integers_are_refused(column):
    with pytest.raises(ValueError, match=r"must be whole numbers below 2\*\*53, but row 0 holds -?\d"):
        read_cells(column, "groups")


def test_large_integers_of_an_integer_type_are_taken():
    assert read_cells(np.array([2**53 + 1, 2**53]), "groups") == [2**53 + 1, 2**53]
    assert read_cells([2.0**53 - 1], "groups") == [2**53 - 1]
