import torch
from torch.nn.functional import cross_entropy

from frostbench.heads.logreg.lbfgs import Problem, minimise
from frostbench.heads.logreg.line_search import TRIALS, Line, line_search


def quadratic(targets):
    """Mean squared error of logits [K', N, C] from targets [N, C], with an optimum from a linear solve."""
    return lambda logits, index: (logits - targets.to(logits.dtype)).square().sum(2).mean(1)


def problem_of(rows, penalty, mean_losses, classes, tolerance, max_steps=500):
    heads = len(penalty)
    return Problem(
        rows=rows,
        spread=rows.square().mean(0),
        penalty=penalty[:, None, None].expand(-1, 1, rows.shape[1]),
        mean_losses=mean_losses,
        classes=classes,
        norm=lambda gradient: gradient.abs().amax((1, 2)),
        tolerance=torch.full((heads,), tolerance).double(),
        max_steps=torch.full((heads,), max_steps),
    )


def table(n=60, p=8, c=3):
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(n, p, generator=draw).double() * torch.logspace(0, -1.5, p).double()
    return rows, torch.randn(n, c, generator=draw).double()


def test_quadratics_with_many_penalties_reach_the_exact_solution():
    rows, targets = table()
    penalty = torch.logspace(-4, 2, 9).double()
    theta, steps = minimise(problem_of(rows, penalty, quadratic(targets), 3, 1e-10))
    for strength, found in zip(penalty, theta, strict=True):
        matrix = 2 * rows.T @ rows / len(rows) + strength * torch.eye(8).double()
        assert torch.allclose(found, torch.linalg.solve(matrix, 2 * rows.T @ targets / len(rows)).T, atol=1e-7)
    assert steps.max() < 100


def test_each_head_gets_the_loss_of_its_own_index_after_others_left():
    rows, targets = table()
    factors = torch.tensor([1.0, 30.0, 0.01, 5.0]).double()
    seen = []

    def mean_losses(logits, index):
        seen.append(index.tolist())
        return (logits - (factors[index, None, None] * targets).to(logits.dtype)).square().sum(2).mean(1)

    theta, _ = minimise(problem_of(rows, torch.full((4,), 0.1).double(), mean_losses, 3, 1e-9))
    assert torch.allclose(theta / factors[:, None, None], theta[:1].expand(4, -1, -1), atol=1e-5)
    assert {tuple(index) for index in seen} > {(0, 1, 2, 3)}


def test_a_head_gets_the_same_result_alone_and_in_a_batch():
    rows, targets = table()
    labels = targets.argmax(1)

    def mean_losses(logits, index):
        return torch.stack([cross_entropy(one, labels) for one in logits])

    penalty = torch.tensor([1e-3, 1e-1, 1e-5]).double()
    together, _ = minimise(problem_of(rows, penalty, mean_losses, 3, 1e-9))
    alone, _ = minimise(problem_of(rows, penalty[1:2], mean_losses, 3, 1e-9))
    assert torch.allclose(together[1], alone[0], atol=1e-7)


def test_an_unreachable_tolerance_ends_by_itself():
    rows, targets = table()
    theta, steps = minimise(problem_of(rows, torch.ones(1).double(), quadratic(targets), 3, 0.0, 10_000))
    assert steps.item() < 2_000
    matrix = 2 * rows.T @ rows / len(rows) + torch.eye(8).double()
    assert torch.allclose(theta[0], torch.linalg.solve(matrix, 2 * rows.T @ targets / len(rows)).T, atol=1e-12)


def test_steps_are_counted_over_both_precisions():
    rows, targets = table()
    labels = targets.argmax(1)
    problem = problem_of(rows, torch.full((2,), 1e-6).double(), lambda z, _: torch.stack(
        [cross_entropy(one, labels) for one in z]), 3, 1e-10, max_steps=7)  # fmt: skip
    _, steps = minimise(problem)
    assert steps.tolist() == [7, 7]


def searched(loss, slope_at_zero, dtype=torch.float64):
    """Run the line search on loss(t) per head, for one logit that a step of length 1 moves from 0 to 1."""
    heads = len(slope_at_zero)
    zero = torch.zeros(heads, dtype=torch.float64)
    logits, change = torch.zeros(heads, 1, 1, dtype=dtype), torch.ones(heads, 1, 1, dtype=dtype)
    line = Line(torch.tensor(slope_at_zero).double(), zero, zero, zero)
    start = loss(logits, torch.arange(heads)).double()
    return line_search(loss, torch.arange(heads), logits, change, line, start, 1e-13)


def test_heads_with_near_and_far_minima_all_converge():
    centres = torch.tensor([1.0, 1e-3, 200.0]).double()
    found = searched(lambda z, i: (z[:, 0, 0] - centres[i]).square(), [-2.0, -2e-3, -400.0])
    assert not found.failed.any()
    assert found.length[0] == 1
    for length, centre in zip(found.length, centres, strict=True):
        assert (length - centre).abs() <= 0.9 * centre + 1e-12
    assert torch.allclose(found.logits[:, 0, 0], found.length)
    assert torch.allclose(found.slope[:, 0, 0], 2 * (found.length - centres))
    assert torch.allclose(found.value, (found.length - centres).square())


def test_an_ascent_direction_fails_and_takes_no_step():
    calls = []

    def loss(z, i):
        calls.append(len(i))
        sign = torch.tensor([1.0, -1.0]).double()[i]
        return torch.exp(sign * z[:, 0, 0]) + z[:, 0, 0].square() / 4

    found = searched(loss, [1.0, -1.0])
    assert found.failed.tolist() == [True, False]
    assert found.length[0] == 0
    assert found.logits[0].item() == 0
    assert found.value[0].item() == 1
    assert len(calls) == TRIALS + 2


def test_a_step_to_nan_is_shortened():
    found = searched(lambda z, i: -(0.5 - z[:, 0, 0]).log() - 4 * z[:, 0, 0], [-2.0])
    assert not found.failed.any()
    assert 0 < found.length.item() < 0.5
