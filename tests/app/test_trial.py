"""One image on one head."""

import sys

import pytest
import torch

from app.trial import Trial, probabilities, try_image
from benchmarks.inference import Predictor, open_predictor, predict_images
from benchmarks.store import read_records
from heads import plugin_files
from heads.calibrators.temperature import Temperature
from heads.ensemble import Ensemble
from heads.export import load
from heads.layers import Layers
from heads.posthoc import PosthocSpec


@pytest.fixture(scope="module")
def store(cache, tmp_path_factory):
    from app.actions.benches import train_one

    out = tmp_path_factory.mktemp("tried") / "results"
    for seed in (0, 1):
        train_one(cache, "plain", ["head.classifier.kind=logreg"], seed, str(out), None, "cpu")
    return out


def test_an_image_gets_what_predict_gives_it(store, photos):
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    image = photos / "digit 8" / sorted(path.name for path in (photos / "digit 8").iterdir())[0]
    trial = try_image(str(image), store, keys, "cpu")
    predictor = open_predictor(store / "runs" / trial.key / "head")
    names = [f"p:{name}" for name in trial.class_names]
    for share, prior in ((0.0, None), (1.0, predictor.head.uniform_prior())):
        wanted = predict_images(predictor, [image], prior=prior)[names].iloc[0].to_list()
        assert probabilities(trial, 1.0, share) == pytest.approx(wanted, abs=1e-5)


def test_the_sliders_move_sureness_and_prior():
    implied = torch.tensor([0.8, 0.2, 0.0], dtype=torch.float64)
    uniform = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    logits = torch.tensor([1.0, 0.0, -torch.inf], dtype=torch.float64)
    cold = Layers(PosthocSpec(calibration=Temperature()), numbers={"temperature": torch.tensor(2.0)})
    trial = Trial("k", ("a", "b", "never trained"), logits, implied, uniform, layers=cold)
    # e^0.5 / (1 + e^0.5) with the head's own temperature 2; times 2 it is e^0.25.
    assert probabilities(trial, 1.0, 0.0) == pytest.approx([0.622459, 0.377541, 0.0], abs=1e-6)
    assert probabilities(trial, 2.0, 0.0) == pytest.approx([0.562177, 0.437823, 0.0], abs=1e-6)
    # Under the equal prior, log 4 is taken off the gap of 1: (1 - 1.386294) / 2 is -0.193147, and
    # 1 / (1 + e^0.193147) is 0.451863.
    assert probabilities(trial, 1.0, 1.0) == pytest.approx([0.451863, 0.548137, 0.0], abs=1e-6)


def test_a_file_that_is_no_image_is_told(store, photos):
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    with pytest.raises(ValueError, match="is not an image"):
        try_image(str(photos / "digit 0" / "broken.png"), store, keys, "cpu")


def test_an_ensemble_is_not_tried(store, photos, monkeypatch):
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    members = tuple(load(store / "runs" / key / "head").head for key in keys.values())
    monkeypatch.setattr("app.trial._predictor", lambda folder, device, plugins: Predictor(Ensemble(members), None))
    with pytest.raises(ValueError, match=r"one head is tried at a time, however: run .* is an ensemble"):
        try_image(str(photos / "digit 8"), store, keys, "cpu")


def test_a_head_that_is_a_plugin_is_tried_only_where_its_file_was_named(cache, photos, tmp_path, monkeypatch):
    from app.actions.benches import train_one

    ran, store, file = tmp_path / "ran", tmp_path / "results", tmp_path / "my_head.py"
    file.write_text(
        "from typing import Literal\nfrom torch import nn\nfrom heads.spec import Spec\n"
        "class MyHead(Spec):\n    kind: Literal['my_head'] = 'my_head'\n"
        "    def build(self, dim, classes, generator):\n        return nn.Linear(dim, classes)\n"
        f"open({str(ran)!r}, 'w').close()\n"
    )
    settings = ["head.classifier.kind=my_head", "train.schedule.epochs=1", "train.schedule.min_steps=1"]
    train_one(cache, "plain", settings, 0, str(store), None, "cpu", [file])
    for name in [name for name in sys.modules if name.startswith("frostbench_plugin_")]:
        monkeypatch.delitem(sys.modules, name)
    plugin_files._instance.cache_clear()
    ran.unlink()
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    image = str(next((photos / "digit 8").iterdir()))
    with pytest.raises(ValueError, match="runs only where its file is named"):
        try_image(image, store, keys, "cpu")
    assert not ran.exists()
    assert len(try_image(image, store, keys, "cpu", (file,)).class_names) == 3
    assert ran.exists()
