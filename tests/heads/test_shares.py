import numpy as np
import pytest
import torch

from frostbench.heads.shares import shares_of

NAMES = ("ash", "beech", "cedar")


@pytest.mark.parametrize(
    "prior",
    [
        {"cedar": 3, "ash": 1, "beech": 0},
        [1, 0, 3],
        (1.0, 0.0, 3.0),
        np.array([1, 0, 3]),
        np.array([1, 0, 3], ">f4"),
        torch.tensor([1, 0, 3]),
        torch.tensor([1.0, 0.0, 3.0], dtype=torch.float16, requires_grad=True),
    ],
)
def test_shares_are_given_by_name_or_in_the_order_of_the_classes(prior):
    found = shares_of(prior, NAMES)
    assert found.tolist() == [1, 0, 3]
    assert found.dtype == torch.float64


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"ash": 1, "beech": 1}, r"\['cedar'\] are missing and \[\] are unknown"),
        ({"ash": 1, "beech": 1, "cedar": 1, "oak": 1}, r"\[\] are missing and \['oak'\] are unknown"),
        ({1: 1, "1": 1}, "are missing"),
        ([1, 2], r"must have 3 shares .* got \[1, 2\]"),
        ([1, 2, -1], "shares of at least 0"),
        ([1, 2, np.nan], "shares of at least 0"),
        ([1, 2, np.inf], "shares of at least 0"),
        ({"ash": 1, "beech": "a", "cedar": 1}, "shares of at least 0"),
        ({"ash": 1, "beech": None, "cedar": 1}, "shares of at least 0"),
        ([[1, 2, 3]], "shares of at least 0"),
        ("trained", "got 'trained'"),
        (0.5, "got 0.5"),
    ],
)
def test_an_invalid_prior_is_rejected(prior, message):
    with pytest.raises(ValueError, match=message):
        shares_of(prior, NAMES)
