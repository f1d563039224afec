import json

import pytest
import torch

from heads.export import Canary, load, save
from heads.head import HeadSpec
from heads.trained import Calibration, Priors, TrainedHead

RECIPES = {"avg": {"hash": "3f9a", "model": "resnet", "size": 224}}


def some_head(classes=3, dim=5, calibrated=True, body="mlp"):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, dim, generator=generator)
    spec = HeadSpec.model_validate(
        {
            "preprocess": {"center": True, "std": True},
            "body": {"kind": "mlp", "hidden": [4]} if body == "mlp" else {"kind": "identity"},
        }
    )
    counts = torch.tensor([70, 20, 10] + [0] * (classes - 3))
    share = counts.double() / counts.sum()
    rows = Calibration(3 * torch.randn(60, classes, generator=generator), torch.arange(60) % 3) if calibrated else None
    if rows is not None:
        rows.logits[:, 3:] = -torch.inf
    return TrainedHead(
        spec=spec,
        head=spec.build(x, classes, generator).eval(),
        columns=("avg",),
        class_names=tuple("abcdef"[:classes]),
        priors=Priors(counts, share, share, share),
        shift=torch.tensor([0.5, 0.0, -0.5] + [0.0] * (classes - 3)),
        temperature=1.5,
        calibration=rows,
        recipes=RECIPES,
        facts={"metrics": {"select": {"nll": 0.5}}},
    )


X = {"avg": torch.randn(7, 5, generator=torch.Generator().manual_seed(1))}


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("body", ["mlp", "identity"])
def test_a_loaded_bundle_predicts_the_same(tmp_path, calibrated, body):
    head = some_head(classes=4, calibrated=calibrated, body=body)
    save(head, tmp_path / "bundle", Canary(b"png", {"avg": X["avg"][0]}))
    bundle = load(tmp_path / "bundle")
    for prior in (None, head.uniform_prior(), torch.tensor([0.2, 0.2, 0.6, 0])):
        assert torch.equal(bundle.head.log_probabilities(X, prior), head.log_probabilities(X, prior))
    assert bundle.head.class_names == head.class_names
    assert bundle.head.recipes == RECIPES
    assert bundle.head.facts == head.facts
    assert bundle.canary.png == b"png"


def test_the_card_can_be_read_by_people(tmp_path):
    save(some_head(), tmp_path / "bundle")
    card = json.loads((tmp_path / "bundle" / "card.json").read_text())
    assert card["class_names"] == ["a", "b", "c"]
    assert card["priors"]["raw"] == [0.7, 0.2, 0.1]
    assert card["temperature"] == 1.5
    assert card["recipes"]["avg"]["model"] == "resnet"
    assert card["facts"]["metrics"]["select"]["nll"] == 0.5
    assert card["versions"]["torch"] == torch.__version__.split("+")[0]


def test_an_existing_folder_is_never_overwritten(tmp_path):
    with pytest.raises(FileExistsError, match=r"exists\. Choose another name"):
        save(some_head(), tmp_path)


def test_a_changed_weight_is_noticed_by_the_canary(tmp_path):
    from safetensors.torch import load_file, save_file

    save(some_head(), tmp_path / "bundle", Canary(b"png", {"avg": X["avg"][0]}))
    path = tmp_path / "bundle" / "head.safetensors"
    tensors = load_file(path)
    tensors["head.classifier.bias"] = tensors["head.classifier.bias"] + 1
    save_file(tensors, path)
    with pytest.raises(ValueError, match="must give the logits it was exported with"):
        load(tmp_path / "bundle")


def test_another_folder_or_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a bundle holds card\.json"):
        load(tmp_path)
    save(some_head(), tmp_path / "bundle")
    card = tmp_path / "bundle" / "card.json"
    card.write_text(json.dumps(json.loads(card.read_text()) | {"format_version": 99}))
    with pytest.raises(ValueError, match="has format 99"):
        load(tmp_path / "bundle")


def test_vectors_of_another_recipe_are_refused_with_the_fields_that_differ():
    head = some_head()
    head.check_recipes(RECIPES)
    with pytest.raises(
        ValueError, match=r"recipe 3f9a, however: the vectors are of recipe 77c1 \(size: head 224, vectors 384\)"
    ):
        head.check_recipes({"avg": {"hash": "77c1", "model": "resnet", "size": 384}})


class TestPrior:
    def test_its_own_prior_changes_nothing(self):
        head = some_head()
        same = head.logits(X) + head.prior_shift(head.priors.implied)
        assert same.numpy() == pytest.approx(head.logits(X).numpy(), abs=1e-6)

    def test_the_shift_is_the_log_ratio_of_the_priors(self):
        head = some_head(calibrated=False)
        uniform = head.uniform_prior()
        wanted = (1 / 3 / torch.tensor([0.7, 0.2, 0.1])).log()
        assert head.prior_shift(uniform).tolist() == pytest.approx(wanted.tolist(), abs=1e-6)
        found = head.log_probabilities(X, uniform)
        unnormalised = (head.logits(X) + wanted) / 1.5
        assert found.numpy() == pytest.approx(unnormalised.log_softmax(1).numpy(), abs=1e-5)

    def test_the_temperature_is_the_one_of_that_state(self):
        from scipy.optimize import minimize_scalar

        head = some_head()
        prior = torch.tensor([0.1, 0.1, 0.8])
        logits = (head.calibration.logits + head.prior_shift(prior)).double()
        labels = head.calibration.labels
        share = torch.bincount(labels).double() / len(labels)
        weight = (prior / share)[labels]

        def loss(t):
            own = (logits / t).log_softmax(1).gather(1, labels[:, None]).squeeze(1)
            return float(-(weight * own).sum())

        wanted = minimize_scalar(loss, bounds=(0.05, 20), method="bounded").x
        assert head.temperature_for(prior) == pytest.approx(wanted, rel=1e-3)
        assert head.temperature_for(None) == 1.5

    @pytest.mark.parametrize("prior", [[0.5, 0.5], [1.0, -0.1, 0.1], [0.0, 0.0, 0.0]])
    def test_a_prior_that_is_none_is_refused(self, prior):
        with pytest.raises(ValueError, match="a class prior needs 3 shares"):
            some_head().prior_shift(torch.tensor(prior))
