import json
import os
from dataclasses import replace

import pytest
import torch
from flips import flips
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensor_bytes
from small_heads import RECIPES, X, some_head

from frostbench.heads.bundle.export import BundleError, Canary, load, save
from frostbench.heads.bundle.files import digest, sealed
from frostbench.heads.posthoc.spec import fit_temperature


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


def test_the_card_is_readable_json(tmp_path):
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


def exported(folder):
    save(some_head(), folder, Canary(b"png", {"avg": X["avg"][0]}))
    return folder


def test_the_canary_detects_changed_logits(tmp_path, monkeypatch):
    folder = exported(tmp_path / "bundle")
    monkeypatch.setattr("frostbench.heads.head.Head.forward", lambda self, x: self.classifier(self.hidden(x)) + 1)
    with pytest.raises(BundleError, match="must reproduce the logits of its export"):
        load(folder)


def change_card(**changes):
    """Edit the card and recompute its digest."""

    def change(folder):
        path = folder / "card.json"
        path.write_text(json.dumps(sealed(json.loads(path.read_text()) | changes)))

    return change


def flip_a_byte(folder):
    content = bytearray((folder / "head.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "head.safetensors").write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (flip_a_byte, r"head\.safetensors in .* was modified"),
        (lambda folder: (folder / "canary.png").unlink(), r"canary\.png in .* is missing"),
        (lambda folder: (folder / "head.safetensors").unlink(), r"head\.safetensors in .* is missing"),
        (lambda folder: (folder / "card.json").write_text("{"), r"card\.json must be as"),
        (lambda folder: (folder / "card.json").write_text("[]"), "holds no JSON object"),
        (lambda folder: (folder / "card.json").write_text("[" * 100_000), "is nested too deeply"),
        (lambda folder: (folder / "card.json").write_text("{}"), "has format None"),
        (change_card(card_sha256="0" * 64, sizes={}), r"card\.json must be as"),
        (change_card(sha256={"head.safetensors": "0" * 64, "/dev/zero": "0" * 64}), r"card\.json must be as"),
        (change_card(sha256={"../other": "0" * 64}), r"card\.json must be as"),
        (change_card(format_version=99), "has format 99"),
        (change_card(class_names=["a", "b", "c", "d"]), "must match its card"),
        (change_card(columns=[]), r"card\.json must be as"),
        (change_card(columns=["zz"]), "must match its card"),
        (change_card(temperature=0), r"card\.json must be as"),
        (change_card(head={"classifier": {"kind": "forest"}}), r"card\.json must be as"),
    ],
)
def test_a_spoiled_bundle_is_rejected(tmp_path, spoil, message):
    folder = exported(tmp_path / "bundle")
    load(folder)
    spoil(folder)
    with pytest.raises(BundleError, match=message):
        load(folder)


EDITS = {
    "class names swapped": {"class_names": ["b", "a", "c"]},
    "temperature": {"temperature": 50.0},
    "recipe": {"recipes": {"avg": RECIPES["avg"] | {"size": 384}}},
    "facts": {"facts": {}},
    "format": {"format_version": 2},
    "versions": {"versions": {}},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_card_is_rejected(tmp_path, edit):
    folder = exported(tmp_path / "bundle")
    path = folder / "card.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    with pytest.raises(BundleError, match=r"card\.json in .* was modified\. Restore the file"):
        load(folder)


@pytest.mark.parametrize("name", ["card.json", "head.safetensors", "canary.png"])
def test_any_flip_in_a_bundle_is_rejected_or_changes_nothing(tmp_path, name):
    folder = exported(tmp_path / "bundle")
    whole, refused = load(folder).head, 0
    for _ in flips(folder / name, 60):
        try:
            found = load(folder).head
        except BundleError:
            refused += 1
            continue
        # White space of the card.
        assert (found.class_names, found.recipes, found.facts) == (whole.class_names, whole.recipes, whole.facts)
        assert torch.equal(found.log_probabilities(X), whole.log_probabilities(X))
    assert refused == 60 if name != "card.json" else refused > 30


def test_white_space_and_order_of_a_card_do_not_matter(tmp_path):
    folder = exported(tmp_path / "bundle")
    path = folder / "card.json"
    path.write_text(json.dumps(dict(reversed(json.loads(path.read_text()).items()))))
    assert load(folder).notes == ()


@pytest.mark.parametrize("name", ["card.json", "head.safetensors", "canary.png"])
@pytest.mark.parametrize("kind", ["link", "device", "pipe", "folder"])
def test_links_pipes_and_folders_are_rejected_without_waiting(tmp_path, name, kind):
    folder = exported(tmp_path / "bundle")
    (folder / name).rename(tmp_path / "moved")
    if kind == "pipe":
        os.mkfifo(folder / name)
    elif kind == "folder":
        (folder / name).mkdir()
    else:
        (folder / name).symlink_to(tmp_path / "moved" if kind == "link" else "/dev/zero")
    with pytest.raises(BundleError, match=rf"must be regular and unchanged, but {name} in .* is not: "):
        load(folder)


def test_a_file_of_another_size_is_not_read(tmp_path, monkeypatch):
    folder = exported(tmp_path / "bundle")
    with (folder / "head.safetensors").open("ab") as file:
        file.truncate(2**40)
    with pytest.raises(BundleError, match=r"head\.safetensors in .* it has 1099511627776 bytes instead of \d+"):
        load(folder)


NUMBERS = ["head.classifier.weight", "calibrator.temperature", "prior.raw", "calibration.logits", "canary.logits"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_are_not_finite_are_rejected(tmp_path, name, value):
    folder = exported(tmp_path / "bundle")
    tensors = load_tensors((folder / "head.safetensors").read_bytes())
    tensors[name].view(-1)[0] = value
    content = tensor_bytes(tensors)
    (folder / "head.safetensors").write_bytes(content)
    card = json.loads((folder / "card.json").read_text())
    change_card(sha256=card["sha256"] | {"head.safetensors": digest(content)})(folder)
    if name == "calibration.logits" and value == -float("inf"):
        # Marks an impossible class.
        load(folder)
        return
    message = (
        "must reproduce the logits"
        if (name, value) == ("canary.logits", -float("inf"))
        else f"be finite, but 1 in {name}"
    )
    with pytest.raises(BundleError, match=message):
        load(folder)


def test_a_bundle_without_the_digest_is_read_with_a_note(tmp_path):
    folder = exported(tmp_path / "bundle")
    path = folder / "card.json"
    card = {name: value for name, value in json.loads(path.read_text()).items() if name not in ("sizes", "card_sha256")}
    path.write_text(json.dumps(card | {"format_version": 2}))
    (note,) = load(folder).notes
    assert f"{folder} was exported by an earlier version (format 2)" in note
    path.write_text(json.dumps(card))
    with pytest.raises(BundleError, match=r"card\.json must be as"):
        load(folder)


def test_another_folder_is_rejected(tmp_path):
    with pytest.raises(BundleError, match=r"A bundle must be a folder with card\.json"):
        load(tmp_path)


def test_vectors_of_another_recipe_are_rejected_with_the_fields_that_differ():
    head = some_head()
    head.check_recipes(RECIPES)
    with pytest.raises(
        ValueError, match=r"recipe 3f9a, but the vectors have recipe 77c1 \(size: head 224, vectors 384\)"
    ):
        head.check_recipes({"avg": {"hash": "77c1", "model": "resnet", "size": 384}})


def test_a_head_without_a_recipe_accepts_no_recipe():
    with pytest.raises(ValueError, match="of recipe None, but the vectors have recipe 3f9a"):
        replace(some_head(), recipes={}).check_recipes(RECIPES)


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
        assert head.under(prior).temperature == pytest.approx(wanted, rel=1e-3)
        assert head.under(None).temperature == 1.5

    def test_an_impossible_class_has_probability_zero(self):
        head = some_head()
        prior = torch.tensor([0.5, 0.5, 0.0])
        found = head.log_probabilities(X, prior).exp()
        assert (found[:, 2] == 0).all()
        assert found.sum(1).tolist() == pytest.approx([1] * 7, abs=1e-5)
        rows = head.calibration
        kept = rows.labels < 2
        two = some_head()
        weight = (prior / (torch.bincount(rows.labels) / 60))[rows.labels[kept]]
        wanted = fit_temperature((rows.logits + two.prior_shift(prior))[kept], rows.labels[kept], weight)
        assert head.under(prior).temperature == pytest.approx(wanted)

    @pytest.mark.parametrize("prior", [[0.5, 0.5], [1.0, -0.1, 0.1], [0.0, 0.0, 0.0], [float("nan"), 1, 1]])
    def test_an_invalid_prior_is_rejected(self, prior):
        with pytest.raises(ValueError, match=r"class prior must have 3 shares|at least one trained class"):
            some_head().prior_shift(torch.tensor(prior))
