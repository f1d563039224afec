import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from frostbench.heads.bodies.attention_pool import AttentionPool
from frostbench.heads.head import HeadSpec
from frostbench.heads.trained import Priors, TrainedHead


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pool(heads=3, mlp_ratio=0, seed=0):
    return AttentionPool(heads=heads, mlp_ratio=mlp_ratio).build(12, generator(seed)).double()


def tokens(n=4, t=7):
    return torch.randn(n, t, 12, dtype=torch.float64, generator=generator(5))


def of_torch(ours):
    """torch's attention with the same weights, for a query that is already projected and keys with any bias."""
    theirs = torch.nn.MultiheadAttention(12, ours.heads, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([torch.eye(12), ours.key, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([torch.zeros(12), torch.randn(12), ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)
    return theirs


@pytest.mark.parametrize("heads", [1, 3, 12])
def test_it_equals_the_attention_of_torch(heads):
    ours, x = pool(heads), tokens()
    query = ours.query.view(1, 1, 12).expand(4, 1, 12)
    wanted, _ = of_torch(ours)(query, x, x)
    assert torch.allclose(ours(x), wanted[:, 0], atol=1e-12)


def test_the_mlp_is_residual():
    plain, more, x = pool(), pool(mlp_ratio=2), tokens()
    norm, first, gelu, second = more.mlp
    assert first.out_features == 24
    wanted = plain(x) + second(gelu(first(norm(plain(x)))))
    assert torch.allclose(more(x), wanted, atol=1e-12)


def test_the_order_of_tokens_does_not_matter_and_one_token_is_mapped():
    ours, x = pool(), tokens()
    assert torch.allclose(ours(x), ours(x.flip(1)), atol=1e-12)
    assert torch.allclose(ours(x[:, :1]), ours.out(ours.value(x[:, 0])), atol=1e-12)
    assert torch.allclose(ours(x[:, :1].expand(4, 9, 12)), ours(x[:, :1]), atol=1e-12)


def test_a_stack_equals_a_loop():
    pools, x = [pool(mlp_ratio=1, seed=seed) for seed in range(3)], tokens()
    params, buffers = stack_module_state(pools)
    stacked = vmap(lambda p, b: functional_call(pools[0], (p, b), (x,)))(params, buffers)
    assert torch.allclose(stacked, torch.stack([p(x) for p in pools]), atol=1e-12, rtol=0)


def test_all_weights_learn_and_come_from_the_generator():
    ours, x = pool(mlp_ratio=1), tokens()
    ours(x).square().sum().backward()
    assert all((p.grad != 0).any() for p in ours.parameters())
    again = pool(mlp_ratio=1)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), again.parameters(), strict=True))


def test_state_round_trip():
    ours, other, x = pool(mlp_ratio=1), pool(mlp_ratio=1, seed=1), tokens()
    other.load_state_dict(ours.state_dict())
    assert torch.equal(other(x), ours(x))
    assert (ours.width, ours.depth) == (12, 0)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match=r"token width 12, got 5. Choose one of \[1, 2, 3, 4, 6, 12\]"):
        AttentionPool(heads=5).build(12, generator())


def test_a_trained_head_reads_several_columns_of_tokens():
    spec = HeadSpec(body=AttentionPool(heads=2))
    share = torch.full((3,), 1 / 3, dtype=torch.float64)
    priors = Priors(torch.ones(3, dtype=torch.int64), share, share, share)
    x = {"a": torch.randn(4, 7, 6, generator=generator()), "b": torch.randn(4, 7, 2, generator=generator())}
    both = torch.cat([x["a"], x["b"]], 2)
    head = spec.build(both, 3, generator())
    trained = TrainedHead(spec, head.eval(), ("a", "b"), ("p", "q", "r"), priors, torch.zeros(3))
    torch.testing.assert_close(trained.logits(x), head(both).detach())
