import pytest
import torch

from frostbench.training.data.part import Data, Part


def part(rows=4, dim=3, labels=None, name="avg"):
    return Part({name: torch.zeros(rows, dim)}, torch.zeros(rows, dtype=torch.long) if labels is None else labels)


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        ({}, torch.zeros(4, dtype=torch.long), "got 4 labels and {}"),
        ({"avg": torch.zeros(5, 3)}, torch.zeros(4, dtype=torch.long), r"got 4 labels and {'avg': \(5, 3\)}"),
        ({"avg": torch.zeros(4)}, torch.zeros(4, dtype=torch.long), r"got 4 labels and {'avg': \(4,\)}"),
        ({"avg": torch.zeros(4, 3)}, torch.zeros(4), "Labels must be int64 class indices"),
    ],
)
def test_columns_and_labels_that_do_not_match_are_refused(columns, labels, message):
    with pytest.raises(ValueError, match=message):
        Part(columns, labels)


@pytest.mark.parametrize("other", [part(dim=2), part(name="cls")])
def test_parts_of_other_columns_are_refused(other):
    with pytest.raises(ValueError, match="All parts must have the same columns and dimensions"):
        Data(part(), other, part(), ("a", "b"))


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_outside_the_classes_are_refused_in_every_part(label):
    with pytest.raises(ValueError, match=r"Labels must lie in 0..C-1 for the 2 classes .* calibrate span"):
        Data(part(), part(), part(labels=torch.tensor([0, 1, 1, label])), ("a", "b"))


def test_vectors_are_joined_in_the_order_of_their_names_and_keep_float64():
    columns = {"a": torch.zeros(4, 2), "b": torch.ones(4, 1, dtype=torch.float16), "c": torch.ones(4, 1).double()}
    found = Part(columns, torch.zeros(4, dtype=torch.long))
    assert found.features(("b", "a")).tolist() == [[1, 0, 0]] * 4
    assert found.features(("b", "a")).dtype == torch.float32
    assert found.features(("c",)).dtype == torch.float64


def test_tokens_are_joined_by_width_and_not_with_vectors():
    labels = torch.zeros(4, dtype=torch.long)
    tokens = Part({"a": torch.zeros(4, 3, 2), "b": torch.ones(4, 3, 1), "c": torch.ones(4, 2)}, labels)
    assert tokens.features(("a", "b")).shape == (4, 3, 3)
    with pytest.raises(ValueError, match="Joined columns must have the same number of tokens"):
        tokens.features(("a", "c"))


def test_groups_name_every_row():
    labels = torch.zeros(4, dtype=torch.long)
    assert Part({"a": torch.zeros(4, 2)}, labels, torch.arange(4)).groups.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="one entry for each of the 4 rows, got 3"):
        Part({"a": torch.zeros(4, 2)}, labels, torch.arange(3))
