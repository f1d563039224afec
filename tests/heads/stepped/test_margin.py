import pytest
import torch

from frostbench.heads.stepped.margin import class_margins, number, own_scores, warmed_up, with_own_changed

LIKE = torch.zeros(1, dtype=torch.float64)


def test_the_class_margins_match_the_vector():
    found = class_margins(0.5, torch.tensor([900, 90, 10]), 0.25, LIKE)
    assert found.tolist() == pytest.approx([0.1623339577, 0.2886751346, 0.5], abs=1e-10)
    assert class_margins(0.5, torch.tensor([900, 90, 10]), 0.0, LIKE).tolist() == [0.5] * 3


@pytest.mark.parametrize(
    ("progress", "warmup", "wanted"), [(0.0, 0.2, 0.0), (0.05, 0.2, 0.25), (0.2, 0.2, 1.0), (0.9, 0.2, 1.0), (0, 0, 1)]
)
def test_the_margin_rises_linearly(progress, warmup, wanted):
    assert warmed_up(progress, warmup, LIKE).item() == pytest.approx(wanted)
    as_tensors = warmed_up(torch.tensor(progress), torch.tensor(warmup), LIKE)
    assert as_tensors.item() == pytest.approx(wanted, abs=1e-6)


def test_a_number_takes_the_dtype_of_the_logits():
    for value in (0.3, torch.tensor(0.3)):
        assert number(value, LIKE).dtype == torch.float64
        assert number(value, LIKE.float()).dtype == torch.float32


def test_only_the_column_of_the_true_class_is_read_and_changed():
    logits, own = torch.arange(6.0).view(2, 3), torch.tensor([2, 0])
    assert own_scores(logits, own).tolist() == [2, 3]
    assert with_own_changed(logits, own, torch.tensor([10.0, 20])).tolist() == [[0, 1, 12], [23, 4, 5]]
