import pytest
import torch

from training.data import Data, Part


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
