import pytest
import torch

from frostbench.training.data.part import Data, Part


def part(rows=4, dim=3, labels=None, name="avg"):
    return Part({name: torch.zeros(rows, dim)}, torch.zeros(rows, dtype=torch.long) if labels is None else labels)


@pytest.mark.parametrize(
    ("columns", "labels", "told"),
    [
        ({}, torch.zeros(4, dtype=torch.long), "4 labels came with {}"),
        ({"avg": torch.zeros(5, 3)}, torch.zeros(4, dtype=torch.long), r"4 labels came with {'avg': \(5, 3\)}"),
        ({"avg": torch.zeros(4)}, torch.zeros(4, dtype=torch.long), r"4 labels came with {'avg': \(4,\)}"),
        ({"avg": torch.zeros(4, 3)}, torch.zeros(4), "labels are int64 class indices"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(columns, labels, told):
    with pytest.raises(ValueError, match=told):
        Part(columns, labels)


@pytest.mark.parametrize("other", [part(dim=2), part(name="cls")])
def test_parts_of_other_columns_are_refused(other):
    with pytest.raises(ValueError, match="parts need the same columns and dimensions"):
        Data(part(), other, part(), ("a", "b"))


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_outside_the_classes_are_refused_wherever_they_are(label):
    with pytest.raises(ValueError, match=r"labels must lie in 0..C-1 for the 2 classes .* calibrate span"):
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
    with pytest.raises(ValueError, match="columns that are joined hold as many tokens each"):
        tokens.features(("a", "c"))


def test_groups_name_every_row():
    labels = torch.zeros(4, dtype=torch.long)
    assert Part({"a": torch.zeros(4, 2)}, labels, torch.arange(4)).groups.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="one group for each of its 4 rows, however: 3 came"):
        Part({"a": torch.zeros(4, 2)}, labels, torch.arange(3))
