import pytest
import torch

from frostbench.training.losses.center import Center, repulsion

X = torch.tensor([[1, 2], [3, 2], [0, 0]], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 1])
CENTERS = torch.tensor([[0, 0], [1, 1]], dtype=torch.float64)
PLAIN = Center(space="plain")


def test_the_loss_and_the_move_of_the_centers_match_the_vectors():
    assert PLAIN(X, LABELS, CENTERS).item() == pytest.approx(10 / 3, abs=1e-9)
    updated = PLAIN.updated(X, LABELS, CENTERS)
    assert updated.flatten().tolist() == pytest.approx([2 / 3, 2 / 3, 0.75, 0.75], abs=1e-9)


def test_the_gradient_draws_a_row_to_its_center():
    x = X.clone().requires_grad_()
    PLAIN(x, LABELS, CENTERS).backward()
    assert torch.allclose(x.grad, (X - CENTERS[LABELS]) / 3, rtol=0, atol=1e-12)


def test_a_center_without_rows_stays_and_many_rows_move_theirs_nearly_the_whole_way():
    centers = torch.tensor([[0, 0], [1, 1], [5, 5]], dtype=torch.float64)
    updated = PLAIN.model_copy(update={"rate": 1.0}).updated(
        X[:1].expand(99, 2), torch.zeros(99, dtype=torch.long), centers
    )
    assert updated[1:].tolist() == [[1, 1], [5, 5]]
    assert updated[0].tolist() == pytest.approx([0.99, 1.98])


def test_centers_start_at_the_means_of_their_rows():
    assert PLAIN.start(X, LABELS, 3).tolist() == [[2, 2], [0, 0], [0, 0]]
    unit = Center().start(torch.tensor([[3.0, 4], [0, 5]], dtype=torch.float64), torch.tensor([1, 1]), 2)
    assert unit.flatten().tolist() == pytest.approx([0, 0, 0.3, 0.9])


def test_in_unit_space_length_does_not_count():
    assert Center()(7 * X, LABELS, CENTERS).item() == pytest.approx(Center()(X, LABELS, CENTERS).item(), abs=1e-12)
    assert PLAIN(7 * X, LABELS, CENTERS).item() != pytest.approx(PLAIN(X, LABELS, CENTERS).item(), abs=1)


def test_repulsion_is_zero_at_a_simplex_and_one_and_a_half_where_three_coincide():
    triangle = torch.tensor([[1, 0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]], dtype=torch.float64)
    assert repulsion(triangle).item() == pytest.approx(0, abs=1e-9)
    assert repulsion(torch.ones(3, 2)).item() == pytest.approx(1.5)
    # Cosines 0, 0 and -1 lie 1/2, 1/2 and 0 above -1/2.
    assert repulsion(torch.tensor([[1.0, 0], [0, 1], [-1, 0]])).item() == pytest.approx(1 / 3)
    assert repulsion(torch.ones(1, 2)).item() == 0


def test_repulsion_moves_rows_so_that_the_next_centers_part():
    x = torch.tensor([[1, 0.1], [1, -0.1]], dtype=torch.float64)
    labels, centers = torch.tensor([0, 1]), torch.tensor([[1, 0.05], [1, -0.05]], dtype=torch.float64)
    loss = PLAIN.model_copy(update={"repulsion": 1.0})
    wanted = PLAIN(x, labels, centers) + repulsion(PLAIN.updated(x, labels, centers))
    assert loss(x, labels, centers).item() == pytest.approx(wanted.item(), abs=1e-12)
    variable = x.clone().requires_grad_()
    repulsion(PLAIN.updated(variable, labels, centers)).backward()
    assert variable.grad[0, 1] < 0 < variable.grad[1, 1]


@pytest.mark.parametrize("space", ["unit", "plain"])
def test_gradients_stay_finite_for_zero_rows_and_zero_centers(space):
    x = torch.zeros(2, 3, requires_grad=True)
    loss = Center(space=space, repulsion=1.0)(x, torch.tensor([0, 1]), torch.zeros(2, 3))
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()
    assert x.grad.abs().max() < 10


def test_the_gradient_is_that_of_finite_differences():
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0))
    centers = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    assert torch.autograd.gradcheck(lambda v: Center(repulsion=0.5)(v, labels, centers), x)


def test_heads_with_their_own_numbers_equal_a_loop():
    x = torch.randn(3, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    centers = torch.randn(3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    numbers = torch.tensor([[0.1, 0.0], [0.5, 0.2], [1.0, 3.0]], dtype=torch.float64)

    def one(rows, centers, number):
        loss = Center().model_copy(update={"rate": number[0], "repulsion": number[1]})
        return loss(rows, LABELS, centers), loss.updated(rows, LABELS, centers)

    values, moved = torch.func.vmap(one)(x, centers, numbers)
    for k, row in enumerate(numbers.tolist()):
        value, center = one(x[k], centers[k], row)
        assert values[k].item() == pytest.approx(value.item(), abs=1e-12)
        assert torch.allclose(moved[k], center, rtol=0, atol=1e-12)
