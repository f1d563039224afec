"""What the tab Predict asks for, without a browser; the process that predicts is a thread here, except in one test."""

import csv
import sys
import threading
import time
from importlib import import_module
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frostbench.app.uploads import Uploads
from frostbench.app.workbench.predict import answers as tab
from frostbench.app.workbench.predict import engine
from frostbench.app.workbench.predict.process import MODULES, PredictionProcess
from frostbench.app.workbench.predict.sets import PredictionSets
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.inference.predict import open_predictor, predict_images
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads import plugin_spec

SHORT = {"train.schedule.epochs": 3, "train.schedule.min_steps": 0}


@pytest.fixture(scope="module")
def store(cache, tmp_path_factory):
    """Two settings with two seeds each, and an ensemble that keeps no head."""
    out = tmp_path_factory.mktemp("predict") / "results"
    bench = {"caches": (str(cache),), "store": str(out), "preset": "plain", "base": SHORT, "seeds": (0, 1)}
    toggles = {"lda": {"preset": "lda"}}
    list(run_bench(BenchSpec(**bench, toggles=toggles, ensembles={"both": ("plain", "lda")})))
    return out


@pytest.fixture
def in_thread(monkeypatch):
    """Run the functions of the process in this one, one after another, as the process does."""
    one_at_a_time = threading.Lock()

    def call(self, name, *arguments):
        module, function = name.rsplit(".", 1)
        with one_at_a_time:
            return getattr(import_module(f"{MODULES}.{module}"), function)(*arguments)

    monkeypatch.setattr(PredictionProcess, "call", call)


@pytest.fixture
def page(store, cache, photos, tmp_path):
    """Ask the tab something."""
    here = Workspace(photos.parent, (cache,), store)
    uploads = Uploads(tmp_path / "uploads")
    sets = PredictionSets("cpu", ())
    functions = tab.answers(here, sets, uploads)

    def ask(name, **request):
        return functions[name](request)

    ask.uploads, ask.sets, ask.here = uploads, sets, here
    yield ask
    sets.process.end()


def finished(ask, **request):
    """Start predicting and return the set's name and its results."""
    name = ask("predict", **request)["set"]
    deadline = time.monotonic() + 120
    while (found := ask("predicted", set=name))["state"] == "predicting":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return name, found


def test_settings_with_heads_are_listed_with_their_best_run(page, store):
    found = page("heads")
    assert {one["name"].split(",")[0] for one in found["settings"]} == {"plain", "lda"}
    for one in found["settings"]:
        values = one["values"]["macro_f1_fg"]
        assert one["values"]["macro_f1_fg"][one["keys"].index(one["key"])] == max(values)
        assert (store / "runs" / one["key"] / "head").is_dir()


@pytest.mark.usefixtures("in_thread")
def test_predictions_are_those_of_predict(page, store, photos):
    heads = page("heads")["settings"]
    _, found = finished(page, heads=heads, folder=photos.name)
    assert (found["state"], found["done"], found["total"]) == ("done", 93, 93)
    broken = found["names"].index("digit 0/broken.png")
    assert "cannot be decoded" in found["errors"][broken] or "is not an image" in found["errors"][broken]
    files = [photos / one for one in found["names"]]
    for number, head in enumerate(heads):
        predictor = open_predictor(store / "runs" / head["key"] / "head")
        wanted = predict_images(predictor, files)
        said = found["heads"][number]
        classes = found["facts"][number]["classes"]
        assert [None if c < 0 else classes[c] for c in said["classes"]] == [
            None if one is np.nan or one is None else one for one in wanted["class"].astype(object)
        ]
        good = wanted["probability"].notna().to_numpy()
        assert np.array(said["probabilities"], dtype=float)[good] == pytest.approx(
            wanted["probability"][good].to_numpy(), abs=1e-5
        )
        p = wanted[[f"p:{one}" for one in classes]][good].to_numpy(dtype=float)
        assert said["shares"] == pytest.approx(p.sum(0), abs=2e-4)
        assert said["variances"] == pytest.approx((p * (1 - p)).sum(0), abs=2e-4)


@pytest.mark.usefixtures("in_thread")
def test_alike_heads_embed_once_and_agree_with_one_alone(page, photos, monkeypatch):
    heads = page("heads")["settings"]
    embedded = []
    whole = engine._prepared
    monkeypatch.setattr(engine, "_prepared", lambda *about: (embedded.append(1), whole(*about))[1])
    _, both = finished(page, heads=heads, folder=photos.name)
    assert len(embedded) == 93
    _, alone = finished(page, heads=heads[1:], folder=photos.name)
    assert both["heads"][1] == alone["heads"][0]


@pytest.mark.usefixtures("in_thread")
def test_the_sliders_move_probabilities_and_not_the_images(page, photos):
    heads = [one for one in page("heads")["settings"] if one["name"].startswith("plain")]
    name, found = finished(page, heads=heads, folder=photos.name)
    hot = page("predicted", set=name, temperature=4, prior=0)["heads"][0]
    assert hot["classes"] == found["heads"][0]["classes"]
    assert sum(filter(None, hot["probabilities"])) < sum(filter(None, found["heads"][0]["probabilities"]))
    even = page("predicted", set=name, temperature=1, prior=1)["heads"][0]
    assert even["shares"] != found["heads"][0]["shares"]
    for wrong in ({"temperature": 0}, {"temperature": "x"}, {"prior": 1.5}, {"prior": None}):
        with pytest.raises(ValueError, match=r"A temperature must be from 0\.25 to 4\.0 and a prior from 0 to 1"):
            page("predicted", set=name, **wrong)


@pytest.mark.usefixtures("in_thread")
def test_too_few_validation_images_leave_unlike_training_untold(page, photos):
    _, found = finished(page, heads=page("heads")["settings"][:1], folder=photos.name)
    assert found["facts"][0]["unlike"] is None
    assert "At least 40 validation images are needed" in found["facts"][0]["why_not"]
    assert set(found["heads"][0]["unlike"]) == {None}
    sure = found["facts"][0]["sure"]
    assert (sure["below"][0], sure["right"][0] is not None) == (0.0, True)
    assert sure["below"] == sorted(sure["below"])


@pytest.mark.usefixtures("in_thread")
def test_a_strange_image_is_unlike_training_and_others_are_not(page, photos, monkeypatch, tmp_path):
    monkeypatch.setattr("frostbench.benchmarks.inference.novelty.FEWEST", 5)
    engine._novelty.cache_clear()
    strange = page.here.root / "strange"
    strange.mkdir(exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(strange / "noise.png")
    heads = page("heads")["settings"][:1]
    name, found = finished(page, heads=heads, folder="strange")
    assert found["heads"][0]["unlike"] == [True]
    (told,) = page("predicted-image", set=name, image=0)
    cosines = [one["cosine"] for one in told["nearest"]]
    assert (len(cosines), cosines) == (6, sorted(cosines, reverse=True))
    assert cosines[0] == pytest.approx(found["heads"][0]["cosines"][0], abs=1e-3)
    assert told["probabilities"] == sorted(told["probabilities"], reverse=True)
    _, usual = finished(page, heads=heads, folder=photos.name)
    flagged = [one for one in usual["heads"][0]["unlike"] if one is not None]
    assert sum(flagged) <= 0.15 * len(flagged)
    engine._novelty.cache_clear()


@pytest.mark.usefixtures("in_thread")
def test_predictions_are_saved_as_csv_with_formulas_defused(page, photos):
    (page.here.root / "odd").mkdir(exist_ok=True)
    image = next((photos / "digit 8").iterdir())
    (page.here.root / "odd" / "=1+1.png").write_bytes(image.read_bytes())
    heads = page("heads")["settings"]
    name, found = finished(page, heads=heads, folder="odd")
    (row,) = csv.DictReader(StringIO(page("predictions-csv", set=name).decode()))
    assert row["image"] == "'=1+1.png"
    first = found["facts"][0]["classes"][found["heads"][0]["classes"][0]]
    assert row["1:class"] == first
    assert float(row[f"1:p:{first}"]) == pytest.approx(found["heads"][0]["probabilities"][0], abs=1e-5)
    assert {"2:class", "2:unlike_training", "2:nearest_cosine", "error"} <= set(row)


@pytest.mark.usefixtures("in_thread")
def test_uploaded_images_are_predicted_under_their_own_names(page, photos):
    image = sorted((photos / "digit 8").iterdir())[0]
    key = page.uploads.keep("my eight.png", image.read_bytes())
    heads = page("heads")["settings"][:1]
    _, one = finished(page, heads=heads, uploads=[key])
    _, all_of_them = finished(page, heads=heads, folder=photos.name)
    place = all_of_them["names"].index(f"digit 8/{image.name}")
    assert one["names"] == ["my eight.png"]
    assert one["heads"][0]["probabilities"] == [all_of_them["heads"][0]["probabilities"][place]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": []}, "1 to 6 heads can predict together"),
        ({"heads": "plain"}, "1 to 6 heads can predict together"),
        ({"heads": [3]}, "A head needs a store and a run key"),
        ({"folder": ".."}, "is not a readable folder below"),
        ({"folder": "/etc"}, "is not a readable folder below"),
        ({"folder": "nowhere"}, "is not a readable folder below"),
        ({"folder": "a\0b"}, "is not a readable folder below"),
    ],
)
def test_malformed_requests_are_refused(page, photos, change, message):
    good = {"heads": page("heads")["settings"][:1], "folder": photos.name}
    with pytest.raises(ValueError, match=message):
        page("predict", **good | change)


def test_heads_of_other_stores_keys_and_images_are_refused(page, photos, tmp_path):
    head = page("heads")["settings"][0]
    for change, message in (
        ({"store": str(tmp_path)}, "The store must be one of"),
        ({"key": "../../etc"}, "A run key must consist of letters"),
        ({"key": "0" * 16}, "is not in the store. Train it again"),
        ({"here": "/etc"}, "The cache must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            page("predict", heads=[head | change], folder=photos.name)
    with pytest.raises(ValueError, match=r"no longer on the server\. Choose it again"):
        page("predict", heads=[head], uploads=["0" * 32])
    with pytest.raises(ValueError, match="uploads or a folder"):
        page("predict", heads=[head], uploads=[3])
    with pytest.raises(ValueError, match=r"1 to 20,000 images can be predicted here, got 0\. Choose some"):
        page("predict", heads=[head], uploads=[])


def test_a_set_that_is_not_kept_is_told(page):
    for name in ("predicted", "predicted-image", "predictions-csv", "stop-predicting"):
        with pytest.raises(ValueError, match=r"no longer kept\. Predict again"):
            page(name, set="none", image=0)


@pytest.mark.usefixtures("in_thread")
def test_old_sets_are_dropped_and_a_stopped_one_keeps_its_results(page, photos, monkeypatch):
    heads = page("heads")["settings"][:1]
    monkeypatch.setattr("frostbench.app.workbench.predict.sets.BATCH", 1)
    name = page("predict", heads=heads, folder=photos.name)["set"]
    while not page("predicted", set=name)["done"]:
        time.sleep(0.01)
    page("stop-predicting", set=name)
    assert page("predicted", set=name)["state"] == "stopped"
    monkeypatch.setattr("frostbench.app.workbench.predict.sets.BATCH", 64)
    for _ in range(4):
        finished(page, heads=heads, folder=photos.name)
    with pytest.raises(ValueError, match="no longer kept"):
        page("predicted", set=name)


def test_a_process_of_its_own_predicts_and_its_end_is_told(page, photos):
    heads = page("heads")["settings"][:1]
    _, found = finished(page, heads=heads, folder=photos.name)
    assert found["state"] == "done"
    (worker,) = page.sets.process._pool._processes.values()
    worker.kill()
    worker.join(30)
    _, found = finished(page, heads=heads, folder=photos.name)
    if found["state"] == "failed":
        assert "The process that predicts has ended" in found["error"]
        _, found = finished(page, heads=heads, folder=photos.name)
    assert found["state"] == "done"


def test_a_plugin_runs_only_where_its_file_was_named(cache, photos, tmp_path, monkeypatch):
    from frostbench.app.actions.benches import train_one
    from frostbench.benchmarks.runs.all_runs import read_records

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
    (row,) = read_records(store).itertuples()
    choice = tab.Choice(Path(store), row.key, None)
    with pytest.raises(ValueError, match="runs only if you name its file"):
        engine.begin("none", [choice], "cpu", ())
    assert not ran.exists()
    (facts,) = engine.begin("named", [choice], "cpu", (file,))
    assert ran.exists()
    assert facts["why_not"] == "the training images are not below the folder of the page"
    engine.forget("named")
