"""Post-hoc layers: stored exactly in a bundle, and refitted for another class prior."""

import json

import pytest
import torch
from safetensors.torch import load as load_tensors

from frostbench.heads.bundle.export import BundleError, Canary, load, save
from frostbench.heads.bundle.files import sealed
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.head import HeadSpec
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.trained import Calibration, Priors, TrainedHead

NAMES = ("ash", "beech", "cedar", "elm")
COUNTS = torch.tensor([70, 20, 10, 0])
X = {"avg": torch.randn(50, 5, generator=torch.Generator().manual_seed(1))}
NONE = {"kind": "none"}
KINDS = {
    "auto": {},
    "temperature": {"calibration": {"kind": "temperature"}},
    "vector": {"calibration": {"kind": "vector"}},
    "matrix": {"calibration": {"kind": "matrix"}},
    "one_vs_rest": {"calibration": {"kind": "isotonic"}},
    "top_label": {"calibration": {"kind": "isotonic", "form": "top_label"}},
    "thresholds": {"calibration": NONE, "thresholds": {"kind": "coordinate_ascent", "metric": "macro_f1"}},
    "recall": {"calibration": NONE, "shift": {"kind": "wanted", "targets": {"cedar": 0.9}}},
    "all": {
        "calibration": {"kind": "vector"},
        "thresholds": {"kind": "coordinate_ascent"},
        "shift": {"kind": "given", "logits": {"beech": 0.3}},
    },
}


def head_with(posthoc, seed=0, rows=400, background=()):
    """A head of three trained classes and an absent one, with layers fitted to labels drawn from its logits."""
    generator = torch.Generator().manual_seed(seed)
    spec = HeadSpec()
    share = COUNTS.double() / COUNTS.sum()
    module = spec.build(torch.randn(20, 5, generator=generator), 4, generator).eval()
    with torch.no_grad():
        module.classifier.weight.copy_(torch.randn(4, 5, generator=generator))
    fitted = PosthocSpec.model_validate(posthoc)
    plain = TrainedHead(
        spec=spec,
        head=module,
        columns=("avg",),
        class_names=NAMES,
        priors=Priors(COUNTS, share, share, share),
        shift=torch.tensor([0.2, 0.0, -0.2, 0.0]),
        layers=Layers.of(fitted, NAMES, background),
    )
    x = torch.randn(rows, 5, generator=generator)
    logits = plain.logits({"avg": x})
    labels = torch.multinomial((logits / 2).softmax(1), 1, generator=generator).squeeze(1)
    return plain.fitted_to(Calibration(logits, labels)) if fitted.reads_rows else plain


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_bundle_predicts_the_same_to_the_bit(tmp_path, kind):
    head = head_with(KINDS[kind])
    save(head, tmp_path / "bundle", Canary(b"png", {"avg": X["avg"][0]}))
    again = load(tmp_path / "bundle").head
    assert again.layers.spec == head.layers.spec
    for prior in (None, head.uniform_prior(), torch.tensor([0.1, 0.2, 0.7, 0.0])):
        own, other = head.under(prior), again.under(prior)
        log_p = own.log_probabilities(X)
        assert torch.equal(other.log_probabilities(X), log_p)
        assert torch.equal(again.log_probabilities(X, prior), log_p)
        assert torch.equal(other.decide(log_p), own.decide(log_p))


@pytest.mark.parametrize("kind", KINDS)
def test_an_absent_class_is_never_predicted(kind):
    head = head_with(KINDS[kind])
    for prior in (None, torch.full((4,), 0.25)):
        log_p = head.log_probabilities(X, prior)
        assert (log_p[:, 3] == -torch.inf).all()
        assert (head.under(prior).decide(log_p) != 3).all()
        assert log_p[:, :3].isfinite().all()
        assert log_p.exp().sum(1).tolist() == pytest.approx([1] * 50, abs=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "auto"])
def test_another_prior_equals_a_fit_to_rows_with_that_prior(kind):
    """Weighted rows are equivalent to repeated rows: here 1, 2 and 4 copies of three classes."""
    head = head_with(KINDS[kind])
    rows, times = head.calibration, torch.tensor([1, 2, 4, 0])
    counts = torch.bincount(rows.labels, minlength=4).double()
    prior = counts * times / (counts * times).sum()
    moved = head.under(prior)
    copies = times[rows.labels]
    drawn = Calibration(
        (rows.logits + head.prior_shift(prior)).repeat_interleave(copies, 0), rows.labels.repeat_interleave(copies)
    )
    layers = head.layers.fitted_to(drawn)
    logits = head.logits(X) + head.prior_shift(prior)
    assert torch.allclose(moved.log_probabilities(X), layers.log_probabilities(logits), atol=1e-4)
    assert torch.allclose(moved.priors.implied, prior)
    if moved.layers.bias is not None and "thresholds" not in KINDS[kind]:
        assert torch.allclose(moved.layers.bias, layers.bias, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_of_two_priors_applies(kind):
    head = head_with(KINDS[kind])
    wanted = torch.tensor([0.2, 0.2, 0.6, 0.0])
    twice = head.under(head.uniform_prior()).under(wanted)
    assert torch.allclose(twice.log_probabilities(X), head.under(wanted).log_probabilities(X), atol=1e-4)


def test_probabilities_for_another_prior_are_calibrated():
    """With many rows weighted to given class shares, the weighted mean probability is that share."""
    head = head_with(KINDS["vector"], rows=20_000)
    prior = torch.tensor([0.1, 0.3, 0.6, 0.0], dtype=torch.float64)
    rows = head.calibration
    moved = head.under(prior)
    weight = rows.weights(prior)
    p = moved.layers.log_probabilities(rows.logits + head.prior_shift(prior)).double().exp()
    mean = (weight[:, None] * p).sum(0) / weight.sum()
    assert mean.tolist() == pytest.approx(prior.tolist(), abs=0.02)


def test_decisions_move_no_probability():
    plain, decided = head_with(KINDS["vector"]), head_with(KINDS["all"])
    log_p = decided.log_probabilities(X)
    assert torch.equal(log_p, plain.log_probabilities(X))
    assert not torch.equal(decided.decide(log_p), plain.decide(log_p))
    assert torch.equal(decided.without_decisions().decide(log_p), log_p.argmax(1))
    assert torch.equal(decided.without_decisions().under(decided.uniform_prior()).decide(log_p), log_p.argmax(1))


def test_thresholds_ignore_background_classes():
    spec = {"thresholds": {"kind": "coordinate_ascent", "shrink": 0}}
    every, foreground = head_with(spec), head_with(spec, background=(0,))
    assert not torch.equal(every.layers.bias, foreground.layers.bias)


def test_an_excluded_class_cannot_return():
    head = head_with(KINDS["temperature"]).under(torch.tensor([0.5, 0.5, 0.0, 0.0]))
    assert (head.log_probabilities(X)[:, 2] == -torch.inf).all()
    assert (head.calibration.labels != 2).all()
    with pytest.raises(ValueError, match=r"cannot return, but \['cedar'\] had share 0"):
        head.under(torch.tensor([0.2, 0.4, 0.4, 0.0]))
    again = head.under(torch.tensor([0.1, 0.9, 0.0, 0.0]))
    assert again.log_probabilities(X).exp().sum(1).tolist() == pytest.approx([1] * 50, abs=1e-5)


def test_without_rows_a_shift_is_kept():
    head = head_with({"calibration": NONE, "shift": {"kind": "given", "logits": {"beech": 0.5}}})
    assert head.calibration is None
    assert head.under(head.uniform_prior()).layers.bias.tolist() == [0, 0.5, 0, 0]


def test_nan_logits_raise_an_error_and_are_not_dropped():
    rows = Calibration(torch.tensor([[float("nan"), 0.0], [1.0, 0.0]]), torch.tensor([0, 1])).known()
    assert len(rows.labels) == 2
    spec = PosthocSpec.model_validate(KINDS["vector"])
    with pytest.raises(ValueError, match="The logits for calibration and decisions must be finite, got NaN"):
        Layers.of(spec, ("ash", "beech")).fitted_to(rows)


class TestEnsemble:
    def test_decisions_use_the_mean_offset_of_the_members(self):
        members = head_with(KINDS["thresholds"]), head_with(KINDS["all"], seed=1), head_with({}, seed=2)
        ensemble = Ensemble(members)
        bias = (members[0].layers.bias + members[1].layers.bias) / 3
        log_p = ensemble.log_probabilities(X)
        assert torch.equal(ensemble.decide(log_p), (log_p + bias).argmax(1))
        assert torch.equal(ensemble.without_decisions().decide(log_p), log_p.argmax(1))
        assert torch.equal(Ensemble(members[2:] * 2).decide(log_p), log_p.argmax(1))

    def test_each_member_is_moved_to_a_prior(self):
        ensemble = Ensemble((head_with(KINDS["matrix"]), head_with(KINDS["one_vs_rest"], seed=1)))
        prior = torch.tensor([0.3, 0.3, 0.4, 0])
        moved = ensemble.under(prior)
        assert torch.equal(moved.log_probabilities(X), ensemble.log_probabilities(X, prior))
        assert ensemble.under(None) is ensemble

    def test_a_loaded_ensemble_decides_the_same(self, tmp_path):
        ensemble = Ensemble((head_with(KINDS["all"]), head_with(KINDS["recall"], seed=1)))
        save(ensemble, tmp_path / "bundle")
        log_p = ensemble.log_probabilities(X)
        assert torch.equal(load(tmp_path / "bundle").head.decide(log_p), ensemble.decide(log_p))


LATER = ("posthoc", "background", "sizes", "card_sha256")
"""Fields that a card of format 1 did not have."""


class TestFormats:
    def old(self, folder, temperature, is_calibrated):
        """A bundle of format 1: no posthoc, no background, no calibrator parameters."""
        head = head_with({"calibration": {"kind": "temperature"}} if is_calibrated else {"calibration": NONE})
        save(head, folder)
        tensors = load_tensors((folder / "head.safetensors").read_bytes())
        card = json.loads((folder / "card.json").read_text())
        import hashlib

        from safetensors.torch import save as tensor_bytes

        content = tensor_bytes({name: value for name, value in tensors.items() if not name.startswith("calibrator.")})
        (folder / "head.safetensors").write_bytes(content)
        card = {name: value for name, value in card.items() if name not in LATER}
        card |= {"format_version": 1, "temperature": temperature}
        card["sha256"] = {"head.safetensors": hashlib.sha256(content).hexdigest()}
        (folder / "card.json").write_text(json.dumps(card))
        return head

    def test_a_bundle_of_format_1_is_read(self, tmp_path):
        head = self.old(tmp_path / "old", 1.25, True)
        found = load(tmp_path / "old").head
        assert found.temperature == 1.25
        assert torch.equal(found.log_probabilities(X), (head.logits(X) / 1.25).log_softmax(1))
        assert found.layers.spec.calibration.kind == "temperature"
        uniform = head.uniform_prior()
        assert torch.equal(found.log_probabilities(X, uniform), head.log_probabilities(X, uniform))

    def test_it_also_holds_without_a_temperature(self, tmp_path):
        head = self.old(tmp_path / "old", 1.0, False)
        found = load(tmp_path / "old").head
        assert found.layers.spec == PosthocSpec()
        assert torch.equal(found.log_probabilities(X), head.logits(X).log_softmax(1))

    @pytest.mark.parametrize("kind", ["vector", "one_vs_rest", "thresholds"])
    def test_missing_tensors_are_detected(self, tmp_path, kind):
        head = head_with({"calibration": NONE} if kind == "thresholds" else {"calibration": {"kind": "temperature"}})
        save(head, tmp_path / "bundle")
        path = tmp_path / "bundle" / "card.json"
        card = json.loads(path.read_text())
        card["posthoc"] = PosthocSpec.model_validate(KINDS[kind]).model_dump(mode="json")
        path.write_text(json.dumps(sealed(card)))
        with pytest.raises(BundleError, match="The tensors of a bundle must match its card"):
            load(tmp_path / "bundle")

    def test_the_card_holds_the_posthoc_spec(self, tmp_path):
        save(head_with(KINDS["all"]), tmp_path / "bundle")
        card = json.loads((tmp_path / "bundle" / "card.json").read_text())
        assert card["format_version"] == 4
        assert card["posthoc"]["calibration"] == {"kind": "vector", "strength": 0.01}
        assert card["posthoc"]["shift"]["logits"] == {"beech": 0.3}
        assert (card["temperature"], card["temperature_under_uniform_prior"]) == (1, 1)
