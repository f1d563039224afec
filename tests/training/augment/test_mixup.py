import pytest
import torch
from scipy.stats import beta, kstest
from torch.nn.functional import cross_entropy

from frostbench.heads.bodies.body import Mlp
from frostbench.training.augment.mix import Mix
from frostbench.training.augment.mixup import Mixup, remix_share
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import EffectiveWeight, InverseWeight, NoWeight
from frostbench.training.losses.loss import LossSpec, branched_objective, objective
from frostbench.training.losses.scores import Branch

Z = torch.tensor([[1.0, 0.5, -0.2]], dtype=torch.float64)
LABELS = torch.arange(3).repeat_interleave(torch.tensor([900, 90, 10]))
LOGITS = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
PAIRS = torch.arange(40) % 3, (torch.arange(40) // 3) % 3
SHARE = torch.rand(40, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def branches(first, second, share):
    share = torch.as_tensor(share, dtype=torch.float64)
    return Branch(torch.as_tensor(first), share), Branch(torch.as_tensor(second), 1 - share)


def mixed_loss(tree, first, second, share, logits, progress=1.0):
    spec = LossSpec.model_validate(tree)
    statistics = class_statistics_of(LABELS, 3, spec.class_weight)
    return branched_objective(spec, logits, branches(first, second, share), statistics, progress)


COUNTS = torch.tensor([900, 90, 10])


def draw(rows=50, seed=0, **tree):
    labels = torch.arange(rows) % 3
    return Mixup(**({"alpha": 0.2} | tree)).draw(labels, COUNTS, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 2.0])
def test_shares_follow_the_beta_distribution(alpha):
    mix = draw(4000, alpha=alpha)
    assert kstest(mix.share_x.numpy(), beta(alpha, alpha).cdf).pvalue > 0.01
    assert torch.equal(mix.share_x, mix.share_y)


def test_partners_are_a_permutation_and_all_is_seeded():
    a, b, c = draw(seed=1), draw(seed=1), draw(seed=2)
    assert a.partner.sort().values.tolist() == list(range(50))
    assert (torch.equal(a.partner, b.partner), torch.equal(a.share_x, b.share_x)) == (True, True)
    assert not torch.equal(a.partner, c.partner)


def test_hidden_draws_every_layer_alike_and_input_only_the_first():
    generator = torch.Generator().manual_seed(0)
    layers = [Mixup(alpha=1, where="hidden").draw_layer(2, generator) for _ in range(900)]
    assert all(layers.count(k) == pytest.approx(300, abs=60) for k in range(3))
    assert {Mixup(alpha=1, where="input").draw_layer(2, generator) for _ in range(20)} == {0}
    assert {Mixup(alpha=1, where="hidden").draw_layer(0, generator) for _ in range(20)} == {0}


@pytest.mark.parametrize("batch", [[900, 90, 10], [10, 10, 10], [3, 50, 0]])
def test_classes_of_partners_are_drawn_in_inverse_proportion_to_their_size_and_their_rows_alike(batch):
    labels = torch.arange(3).repeat_interleave(torch.tensor(batch))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(7))]
    generator, spec = torch.Generator().manual_seed(0), Mixup(alpha=1, pairing="head_tail")
    partner = torch.cat([spec.draw(labels, COUNTS, generator).partner for _ in range(40_000 // len(labels))])
    found = torch.bincount(labels[partner], minlength=3) / len(partner)
    inverse = torch.tensor([float(size > 0) for size in batch]) / COUNTS
    assert found.tolist() == pytest.approx((inverse / inverse.sum()).tolist(), abs=0.01)
    common = labels == inverse.argmax()
    times = torch.bincount(partner, minlength=len(labels))[common].float()
    assert times.min() > 0.8 * times.mean()
    assert times.max() < 1.2 * times.mean()
    assert set(partner[:50].tolist()) <= set(range(len(labels)))


@pytest.mark.parametrize(
    ("own", "other", "share", "wanted"),
    [(900, 10, 0.4, 0), (900, 10, 0.6, 0.6), (10, 900, 0.6, 1), (10, 900, 0.4, 0.4), (90, 90, 0.4, 0.4)],
)
def test_remix_matches_the_vectors(own, other, share, wanted):
    share, ratio = (torch.tensor([v], dtype=torch.float64) for v in (share, own / other))
    assert remix_share(share, ratio, 3.0, 0.5).item() == pytest.approx(wanted, abs=1e-12)


def test_remix_changes_the_labels_only_and_needs_its_ratio():
    plain, remix = draw(400, alpha=1), draw(400, alpha=1, label_rule="remix")
    assert torch.equal(remix.partner, plain.partner)
    assert torch.equal(remix.share_x, plain.share_x)
    sizes = COUNTS[torch.arange(400) % 3]
    for own, other, share, found in zip(sizes, sizes[plain.partner], plain.share_x, remix.share_y, strict=True):
        whole = 0 if own > other and share < 0.5 else 1 if own < other and share > 0.5 else share
        assert found.item() == float(whole)
    assert torch.equal(draw(400, alpha=1, label_rule="remix", remix_kappa=91).share_y, plain.share_x)


def test_a_row_is_the_weighted_sum_of_itself_and_its_partner():
    share = torch.tensor([0.7, 0.4], dtype=torch.float64)
    mix = Mix(torch.tensor([1, 0]), share, torch.tensor([1.0, 0.0], dtype=torch.float64))
    found = mix(torch.tensor([[1.0, 0], [0, 10]]))
    assert found.flatten().tolist() == pytest.approx([0.7, 3, 0.6, 4])
    assert found.dtype == torch.float32
    own, other = mix.branches(torch.tensor([5, 6]))
    assert (own.labels.tolist(), own.share.tolist()) == ([5, 6], [1, 0])
    assert (other.labels.tolist(), other.share.tolist()) == ([6, 5], [0, 1])


@pytest.mark.parametrize("is_shared", [True, False])
def test_heads_with_their_own_mixing_equal_a_loop(is_shared):
    mixes = [draw(6, seed, alpha=alpha, pairing="head_tail") for seed, alpha in enumerate((0.2, 1.0, 2.0))]
    stacked = Mix(*map(torch.stack, zip(*mixes, strict=True)))
    x = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = x[0] if is_shared else x
    found = torch.func.vmap(lambda mix, rows: mix(rows), in_dims=(0, None if is_shared else 0))(stacked, rows)
    for k, mix in enumerate(mixes):
        assert torch.allclose(found[k], mix(x[0 if is_shared else k]), rtol=0, atol=1e-12)


def test_mixing_between_blocks_equals_the_blocks_by_hand():
    body = Mlp(hidden=(6, 5), dropout=0).build(4, torch.Generator().manual_seed(0))
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    assert torch.equal(body(body(x, end=1), start=1), body(x))
    assert torch.equal(body(x, end=0), x)
    assert torch.equal(body(x, start=2), x)
    hidden = torch.nn.functional.gelu(body.norms[0](body.linears[0](x)))
    assert torch.equal(body(x, end=1), hidden)


def test_the_weighted_loss_of_one_mixed_sample_matches_the_vector():
    tree = {"class_weight": {"kind": "effective", "beta": 0.999}}
    weight = EffectiveWeight(beta=0.999)(torch.tensor([900, 90, 10]))
    took_part = 0.7 * weight[0].item() + 0.3 * weight[2].item()
    assert mixed_loss(tree, [0], [2], [0.7], Z).item() * took_part == pytest.approx(1.4871934919, abs=1e-9)


def test_without_weights_two_branches_equal_one_soft_target_of_torch():
    first, second = PAIRS
    soft = torch.zeros(40, 3, dtype=torch.float64)
    soft[torch.arange(40), first] += SHARE
    soft[torch.arange(40), second] += 1 - SHARE
    found = mixed_loss({}, first, second, SHARE, LOGITS).item()
    assert found == pytest.approx(cross_entropy(LOGITS, soft).item(), abs=1e-12)
    smoothed = mixed_loss({"smoothing": {"epsilon": 0.1}}, first, second, SHARE, LOGITS).item()
    assert smoothed == pytest.approx(cross_entropy(LOGITS, soft, label_smoothing=0.1).item(), abs=1e-12)


def test_weights_and_logit_adjustment_act_in_each_branch():
    first, second = PAIRS
    tree = {"class_weight": {"kind": "inverse"}, "logit_adjustment": {"tau": 1, "prior": "raw"}}
    weight = InverseWeight()(torch.tensor([900, 90, 10]))
    log_p = (LOGITS + torch.tensor([0.9, 0.09, 0.01], dtype=torch.float64).log()).log_softmax(1)
    total = norm = 0.0
    for n in range(40):
        for label, share in ((first[n], SHARE[n]), (second[n], 1 - SHARE[n])):
            total -= (weight[label] * share * log_p[n, label]).item()
            norm += (weight[label] * share).item()
    assert mixed_loss(tree, first, second, SHARE, LOGITS).item() == pytest.approx(total / norm, abs=1e-12)


@pytest.mark.parametrize("tree", [{}, {"class_weight": {"kind": "inverse"}, "hardmine": {"keep": 0.5, "quota": 1}}])
def test_a_share_of_one_is_the_plain_objective(tree):
    first, second = PAIRS
    spec = LossSpec.model_validate(tree)
    plain = objective(spec, LOGITS, first, class_statistics_of(LABELS, 3, spec.class_weight), 1.0).item()
    assert mixed_loss(tree, first, second, torch.ones(40), LOGITS).item() == pytest.approx(plain, abs=1e-12)
    assert mixed_loss(tree, second, first, torch.zeros(40), LOGITS).item() == pytest.approx(plain, abs=1e-12)


def test_hard_mining_ranks_mixed_samples_by_their_mixed_loss():
    first, second = PAIRS
    tree = {"hardmine": {"keep": 0.5, "warm": 0, "quota": 0}}
    each = SHARE * cross_entropy(LOGITS, first, reduction="none")
    each = each + (1 - SHARE) * cross_entropy(LOGITS, second, reduction="none")
    wanted = each.topk(20).values.mean().item()
    assert mixed_loss(tree, first, second, SHARE, LOGITS).item() == pytest.approx(wanted, abs=1e-12)


def test_a_mixed_sample_fills_the_quota_of_its_larger_share():
    logits = torch.tensor([[0, 9.0], [0, 8], [5, -5], [7, 0]], dtype=torch.float64)
    spec = LossSpec.model_validate({"hardmine": {"keep": 0.25, "warm": 0, "quota": 1}})
    statistics = class_statistics_of(torch.tensor([0, 1]), 2, NoWeight())
    shares = torch.tensor([0.9, 0.9, 0.9, 0.1], dtype=torch.float64)
    found = branched_objective(spec, logits, branches([1] * 4, [0] * 4, shares), statistics, 1.0)
    soft = torch.stack([1 - shares, shares], 1)
    each = cross_entropy(logits, soft, reduction="none")
    assert each.argsort(descending=True).tolist() == [2, 0, 1, 3]
    # One row is kept as the hardest, and the easiest one is the only one that is mostly of class 0.
    assert found.item() == pytest.approx((each[2] + each[3]).item() / 2, abs=1e-12)
