import json
import math
from dataclasses import replace

import pytest
import torch

from frostbench.heads.bundle.export import BundleError, Canary, load, load_head, save
from frostbench.heads.bundle.files import sealed
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.head import HeadSpec
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.trained import Calibration, Priors, TrainedHead

NAMES = ("ash", "beech", "cedar")
COLD = PosthocSpec(calibration=Temperature())
X = {"a": torch.tensor([[0.0, 0.0]]), "b": torch.tensor([[1.0, 0.0]])}


def head_of(biases, column="a", counts=(1, 1, 1), temperature=1.0, recipe="3f9a", calibration=None):
    """A head whose logits are the same for all vectors: its biases."""
    spec, counts = HeadSpec(), torch.tensor(counts)
    head = spec.build(torch.zeros(2, 2), len(counts), torch.Generator())
    with torch.no_grad():
        head.classifier.weight.zero_()
        head.classifier.bias.copy_(torch.tensor(biases))
    share = counts.double() / counts.sum()
    return TrainedHead(
        spec=spec,
        head=head.eval(),
        columns=(column,),
        class_names=NAMES[: len(counts)],
        priors=Priors(counts, share, share, share),
        shift=torch.zeros(len(counts)),
        layers=Layers(COLD, NAMES, (), {"temperature": torch.tensor(temperature, dtype=torch.float64)}),
        calibration=calibration,
        recipes={column: {"hash": recipe, "model": "resnet"}},
        facts={"key": column},
    )


def log(*shares):
    return [math.log(share) for share in shares]


ONE, TWO, THREE = (0.7, 0.2, 0.1), (0.1, 0.3, 0.6), (0.4, 0.1, 0.5)


def test_probabilities_are_the_mean_by_hand():
    found = Ensemble((head_of(log(*ONE)), head_of(log(*TWO), "b"))).log_probabilities(X)
    assert found.dtype == torch.float64
    assert found.exp()[0].tolist() == pytest.approx([0.4, 0.25, 0.35], abs=1e-7)
    three = Ensemble((head_of(log(*ONE)), head_of(log(*TWO)), head_of(log(*THREE))))
    assert three.log_probabilities(X).exp()[0].tolist() == pytest.approx([0.4, 0.2, 0.4], abs=1e-7)


def test_each_member_has_its_own_temperature():
    """Temperature 2 takes the square root of each share."""
    cold = head_of(log(0.64, 0.16, 0.2), temperature=2.0)
    roots = [0.8, 0.4, math.sqrt(0.2)]
    wanted = [(root / sum(roots) + share) / 2 for root, share in zip(roots, TWO, strict=True)]
    ensemble = Ensemble((cold, head_of(log(*TWO))))
    assert ensemble.log_probabilities(X).exp()[0].tolist() == pytest.approx(wanted, abs=1e-6)
    plain = [(a + b) / 2 for a, b in zip((0.64, 0.16, 0.2), TWO, strict=True)]
    assert ensemble.logits(X).softmax(1)[0].tolist() == pytest.approx(plain, abs=1e-6)


def test_tiny_probabilities_are_kept():
    found = Ensemble((head_of([0.0, -800.0, 0.0]), head_of([0.0, -802.0, 0.0]))).log_probabilities(X)
    wanted = math.log(0.5) - 800 + math.log((1 + math.exp(-2)) / 2)
    assert float(found[0, 1]) == pytest.approx(wanted, rel=1e-6)


def test_the_order_of_members_does_not_matter():
    heads = [head_of(log(*shares)) for shares in (ONE, TWO, THREE)]
    wanted = Ensemble(tuple(heads)).log_probabilities(X)
    for order in ((1, 0, 2), (2, 1, 0), (1, 2, 0)):
        assert torch.allclose(Ensemble(tuple(heads[i] for i in order)).log_probabilities(X), wanted, atol=1e-14, rtol=0)


def test_a_prior_is_applied_in_each_member():
    """Members with priors (1/2, 1/4, 1/4) and (1/4, 1/4, 1/2), moved to the prior (1/5, 2/5, 2/5)."""
    heads = head_of(log(*ONE), counts=(2, 1, 1)), head_of(log(*TWO), counts=(1, 1, 2))
    moved = []
    for shares, carried in ((ONE, (0.5, 0.25, 0.25)), (TWO, (0.25, 0.25, 0.5))):
        odds = [p * new / old for p, new, old in zip(shares, (0.2, 0.4, 0.4), carried, strict=True)]
        moved.append([value / sum(odds) for value in odds])
    wanted = [(a + b) / 2 for a, b in zip(*moved, strict=True)]
    found = Ensemble(heads).log_probabilities(X, torch.tensor([1.0, 2.0, 2.0]))
    assert found.exp()[0].tolist() == pytest.approx(wanted, abs=1e-6)


def test_a_class_without_rows_in_one_member_gets_the_share_of_the_other():
    lacking = head_of([math.log(0.25), 5.0, math.log(0.75)], counts=(3, 0, 1))
    ensemble = Ensemble((lacking, head_of(log(*TWO), counts=(5, 2, 2))))
    assert ensemble.log_probabilities(X).exp()[0].tolist() == pytest.approx([0.175, 0.15, 0.675], abs=1e-7)
    assert ensemble.counts.tolist() == [5, 2, 2]
    assert ensemble.uniform_prior().tolist() == pytest.approx([1 / 3] * 3)
    # For it the first member has odds 0.25 * 2 : 0.75 * 2/3 over its classes, with its prior of 3/4 and 1/4.
    odds = [0.25 * 0.5 / 0.75, 0.75 * 0.5 / 0.25]
    other = [0.1 * 9 / 5, 0.3 * 9 / 2, 0.6 * 9 / 2]
    wanted = [(odds[0] / sum(odds) + other[0] / sum(other)) / 2, other[1] / sum(other) / 2]
    found = ensemble.log_probabilities(X, ensemble.uniform_prior()).exp()[0]
    assert found[:2].tolist() == pytest.approx(wanted, abs=1e-6)
    nobody = Ensemble((lacking, head_of(log(*TWO), counts=(1, 0, 1))))
    assert nobody.log_probabilities(X)[0, 1] == -math.inf
    assert nobody.uniform_prior().tolist() == [0.5, 0, 0.5]


def test_columns_of_all_members_are_read_and_their_recipes_checked():
    ensemble = Ensemble((head_of(log(*ONE)), head_of(log(*TWO), "b", recipe="77c1"), head_of(log(*THREE))))
    assert ensemble.columns == ("a", "b")
    assert {name: recipe["hash"] for name, recipe in ensemble.recipes.items()} == {"a": "3f9a", "b": "77c1"}
    ensemble.check_recipes(ensemble.recipes)
    with pytest.raises(ValueError, match="This head was trained on column 'b' of recipe 77c1"):
        ensemble.check_recipes({"a": {"hash": "3f9a"}, "b": {"hash": "other"}})
    with pytest.raises(ValueError, match=r"\['b'\] are not among \['a'\]"):
        ensemble.log_probabilities({"a": X["a"]})


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ((head_of(log(*ONE)),), "needs at least two members, got 1"),
        ((head_of(log(*ONE)), head_of(log(0.5, 0.5), counts=(1, 1))), r"member 2 lacks \['cedar'\] and also has \[\]"),
        ((head_of(log(*ONE)), replace(head_of(log(*TWO)), class_names=NAMES[::-1])), "member 2 has another order"),
        (
            (head_of(log(*ONE)), head_of(log(*TWO), "b"), head_of(log(*TWO), recipe="77c1")),
            "column 'a' has recipe 77c1 in member 3 and 3f9a in earlier members",
        ),
        ((head_of(log(*ONE)), replace(head_of(log(*TWO)), recipes={})), "has recipe None in member 2"),
    ],
)
def test_heads_that_form_no_ensemble_are_rejected(members, message):
    with pytest.raises(ValueError, match=message):
        Ensemble(members)


def saved(folder, canary=True):
    rows = Calibration(torch.tensor([log(*ONE), log(*TWO)]), torch.tensor([0, 1]))
    members = head_of(log(*ONE), temperature=1.5, calibration=rows), head_of(log(*TWO), "b", counts=(1, 2, 3))
    ensemble = Ensemble(members, {"row": "both"})
    save(ensemble, folder, Canary(b"png", {name: x[0] for name, x in X.items()}) if canary else None)
    return ensemble


def test_a_loaded_ensemble_predicts_the_same(tmp_path):
    ensemble = saved(tmp_path / "bundle")
    bundle = load(tmp_path / "bundle")
    for prior in (None, ensemble.uniform_prior(), torch.tensor([0.2, 0.2, 0.6])):
        assert torch.equal(bundle.head.log_probabilities(X, prior), ensemble.log_probabilities(X, prior))
    assert bundle.head.facts == {"row": "both"}
    assert (bundle.canary.png, sorted(bundle.canary.vectors)) == (b"png", ["a", "b"])
    assert torch.equal(load(tmp_path / "bundle" / "member-1").head.head.classifier.bias, torch.tensor(log(*TWO)))
    assert {path.name for path in (tmp_path / "bundle").iterdir()} == {"ensemble.json", "member-0", "member-1"}
    card = json.loads((tmp_path / "bundle" / "ensemble.json").read_text())
    assert (card["class_names"], card["columns"], card["format_version"]) == (list(NAMES), ["a", "b"], 2)
    saved(tmp_path / "plain", canary=False)
    assert load(tmp_path / "plain").canary is None
    with pytest.raises(BundleError, match=r"A single head is required, but .* holds an ensemble"):
        load_head(tmp_path / "bundle")


def test_more_than_ten_members_keep_their_order(tmp_path):
    heads = [head_of([0.1 * number, 0.0, 0.0]) for number in range(12)]
    save(Ensemble(tuple(heads)), tmp_path / "bundle")
    found = [round(float(head.head.classifier.bias[0].detach()), 3) for head in load(tmp_path / "bundle").head.members]
    assert found == [round(0.1 * number, 3) for number in range(12)]


def tensors_of_another(folder):
    saved(folder / "other")
    tensors = (folder / "other" / "member-0" / "head.safetensors").read_bytes()
    (folder / "bundle" / "member-1" / "head.safetensors").write_bytes(tensors)


def linked_member(folder):
    (folder / "bundle" / "member-1").rename(folder / "moved")
    (folder / "bundle" / "member-1").symlink_to(folder / "moved")


def edited(folder):
    path = folder / "bundle" / "ensemble.json"
    path.write_text(path.read_text().replace('"both"', '"other"'))


def another_member(folder):
    save(head_of(log(*THREE), "b"), folder / "other")
    for name in ("card.json", "head.safetensors"):
        (folder / "bundle" / "member-1" / name).write_bytes((folder / "other" / name).read_bytes())


def change_card(**changes):
    def change(folder):
        path = folder / "bundle" / "ensemble.json"
        path.write_text(json.dumps(sealed(json.loads(path.read_text()) | changes)))

    return change


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (tensors_of_another, r"head\.safetensors in .*member-1 is not: it has .*so it was changed"),
        (linked_member, r"member-1 in .* is a link"),
        (edited, r"ensemble\.json in .* was modified"),
        (another_member, r"member-1/card\.json in .* was modified"),
        (lambda folder: (folder / "bundle" / "member-0" / "card.json").unlink(), "member-0/card.json .*is missing"),
        (lambda folder: (folder / "bundle" / "ensemble.json").write_text("{"), r"ensemble\.json must be as"),
        (change_card(format_version=7), "has format 7"),
        (change_card(class_names=["ash", "beech"]), r"must match ensemble\.json"),
        (change_card(members={"member-0": "0" * 64}), r"ensemble\.json must be as"),
        (change_card(members={"../member-0": "0" * 64, "member-1": "0"}), r"ensemble\.json must be as"),
    ],
)
def test_a_spoiled_ensemble_is_rejected(tmp_path, spoil, message):
    saved(tmp_path / "bundle")
    spoil(tmp_path)
    with pytest.raises(BundleError, match=message):
        load(tmp_path / "bundle")
