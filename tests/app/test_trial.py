"""One image on one head."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.page.routes import routes
from frostbench.app.trial import Trial, decided, probabilities, try_image
from frostbench.app.uploads import Uploads
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.inference.predict import Predictor, open_predictor, predict_images
from frostbench.benchmarks.runs.all_runs import read_records
from frostbench.heads import plugin_spec
from frostbench.heads.bundle.export import load
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec


@pytest.fixture(scope="module")
def store(cache, tmp_path_factory):
    from frostbench.app.actions.benches import train_one

    out = tmp_path_factory.mktemp("tried") / "results"
    for seed in (0, 1):
        train_one(cache, "plain", ["head.classifier.kind=logreg"], seed, str(out), None, "cpu", simple=False)
    return out


def test_an_image_gets_what_predict_gives_it(store, photos):
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    image = photos / "digit 8" / sorted(path.name for path in (photos / "digit 8").iterdir())[0]
    trial = try_image(image, image.name, store, keys, "cpu")
    predictor = open_predictor(store / "runs" / trial.key / "head")
    names = [f"p:{name}" for name in trial.class_names]
    for share, prior in ((0.0, None), (1.0, predictor.head.uniform_prior())):
        wanted = predict_images(predictor, [image], prior=prior)[names].iloc[0].to_list()
        assert probabilities(trial, 1.0, share) == pytest.approx(wanted, abs=1e-5)


def images_of_every_mode(folder):
    """Files whose bytes are not those of plain RGB, by name."""
    noise = np.random.default_rng(0).integers(0, 256, (60, 90, 4), dtype=np.uint8)
    colour, grey = Image.fromarray(noise[..., :3], "RGB"), Image.fromarray(noise[..., 0], "L")
    turned = Image.Exif()
    turned[274] = 6
    made = {
        "alpha.png": (Image.fromarray(noise, "RGBA"), {}),
        "grey-alpha.png": (Image.fromarray(noise, "RGBA").convert("LA"), {}),
        "sixteen.png": (Image.fromarray(noise[..., 0].astype(np.uint16) * 201 + 77), {}),
        "grey.jpg": (grey, {}),
        "inks.jpg": (colour.convert("CMYK"), {}),
        "inks.tif": (colour.convert("CMYK"), {}),
        "palette.png": (colour.quantize(32), {"transparency": 3}),
        "palette.gif": (colour.quantize(32), {"transparency": 3}),
        "two.png": (grey.convert("1"), {}),
        "turned.jpg": (colour, {"exif": turned}),
        "small.webp": (Image.fromarray(noise, "RGBA"), {}),
    }
    for name, (image, how) in made.items():
        image.save(folder / name, **how)
    return [folder / name for name in made]


def test_an_image_of_any_mode_that_is_given_to_the_page_gets_what_predict_gives_it_bit_for_bit(store, tmp_path):
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    uploads, predictor = Uploads(tmp_path / "uploads"), None
    client = TestClient(Starlette(routes=routes(Workspace(tmp_path, (), store), uploads, tmp_path / "heads")))
    for image in images_of_every_mode(tmp_path):
        result = client.post("/frostbench/images", params={"name": image.name}, content=image.read_bytes()).json()
        upload = uploads.get(result["id"])
        trial = try_image(upload.path, upload.name, store, keys, "cpu")
        predictor = predictor or open_predictor(store / "runs" / trial.key / "head")
        wanted = predict_images(predictor, [image]).iloc[0]
        assert probabilities(trial, 1.0, 0.0) == [wanted[f"p:{name}"] for name in trial.class_names], image.name
        assert decided(trial) == wanted["class"]


def test_views_of_an_image_are_drawn_by_its_own_name(tmp_path, monkeypatch):
    named = []

    class Named:
        head, background = SimpleNamespace(logits=None), (255, 255, 255)

        vectors = intensity_range = None

        def prepare(self, name, pixels):
            named.append(name)
            raise ValueError("seen")

    monkeypatch.setattr("frostbench.app.trial.best_run", lambda store, keys: "key")
    monkeypatch.setattr("frostbench.app.trial._predictor", lambda folder, device, plugins: Named())
    Image.new("RGB", (4, 4)).save(tmp_path / "image", "PNG")
    with pytest.raises(ValueError, match="seen"):
        try_image(tmp_path / "image", "leaf 7.png", tmp_path, {}, "cpu")
    assert named == ["leaf 7.png"]


def test_what_is_decided_by_cut_offs_is_said_as_predict_says_it():
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    logits = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    cut = Layers(bias=-torch.tensor([0.6, 0.2, 0.3], dtype=torch.float64).log())
    assert decided(Trial("k", ("a", "b", "c"), logits, third, third, layers=cut)) == "b"
    assert decided(Trial("k", ("a", "b", "c"), logits, third, third, layers=Layers())) == "a"


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


def test_a_file_that_is_not_an_image_is_an_error(store, photos):
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    with pytest.raises(ValueError, match="is not an image"):
        try_image(photos / "digit 0" / "broken.png", "broken.png", store, keys, "cpu")


def test_an_ensemble_is_not_tried(store, photos, monkeypatch):
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    members = tuple(load(store / "runs" / key / "head").head for key in keys.values())
    monkeypatch.setattr(
        "frostbench.app.trial._predictor", lambda folder, device, plugins: Predictor(Ensemble(members), None)
    )
    with pytest.raises(ValueError, match=r"Run .* is an ensemble, but only single heads can be tried"):
        try_image(photos / "digit 8", "digit 8", store, keys, "cpu")


def test_a_head_that_is_a_plugin_is_tried_only_where_its_file_was_named(cache, photos, tmp_path, monkeypatch):
    from frostbench.app.actions.benches import train_one

    ran, store, file = tmp_path / "ran", tmp_path / "results", tmp_path / "my_head.py"
    file.write_text(
        "from typing import Literal\nfrom torch import nn\nfrom frostbench.heads.spec import Spec\n"
        "class MyHead(Spec):\n    kind: Literal['my_head'] = 'my_head'\n"
        "    def build(self, dim, classes, generator):\n        return nn.Linear(dim, classes)\n"
        f"open({str(ran)!r}, 'w').close()\n"
    )
    settings = ["head.classifier.kind=my_head", "train.schedule.epochs=1", "train.schedule.min_steps=1"]
    train_one(cache, "plain", settings, 0, str(store), None, "cpu", [file], simple=False)
    for name in [name for name in sys.modules if name.startswith("frostbench_plugin_")]:
        monkeypatch.delitem(sys.modules, name)
    plugin_spec._instance.cache_clear()
    ran.unlink()
    keys = {int(row.seed): row.key for row in read_records(store).itertuples()}
    image = next((photos / "digit 8").iterdir())
    with pytest.raises(ValueError, match="runs only if you name its file"):
        try_image(image, image.name, store, keys, "cpu")
    assert not ran.exists()
    assert len(try_image(image, image.name, store, keys, "cpu", (file,)).class_names) == 3
    assert ran.exists()
