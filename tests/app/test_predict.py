import json
import shutil
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
import torch
from flips import flips
from PIL import Image

from frostbench.benchmarks.inference.canary import check_canary
from frostbench.benchmarks.inference.predict import open_predictor, predict_images, read_prior
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import Canary, load
from frostbench.heads.bundle.files import sealed
from frostbench.heads.trained import TrainedHead


@pytest.fixture(scope="module")
def predictor(bundle):
    return open_predictor(bundle)


def test_images_give_what_their_cached_vectors_gave(predictor, photos, cache):
    table = read_table(cache)
    vectors = torch.tensor(table.columns["avg"].astype(np.float32))
    wanted = predictor.head.log_probabilities({"avg": vectors}).exp().numpy()
    found = predict_images(predictor, [photos / id_ for id_ in table.ids], batch_size=16)
    shares = found[[f"p:{name}" for name in predictor.head.class_names]].to_numpy()
    assert shares == pytest.approx(wanted, abs=2e-3)
    right = found["class"] == np.array(table.class_names)[table.labels]
    assert right.mean() > 0.9


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_predictions_are_written_in_three_forms(frostbench, bundle, photos, tmp_path, ending):
    out = tmp_path / f"new.{ending}"
    result = frostbench("predict", bundle, photos / "digit 1", photos / "digit 0" / "broken.png", "--out", out)
    assert result.status == 0, result.err
    assert "41 images, 1 of them could not be read" in result.out
    table = getattr(pd, f"read_{ending}")(out)
    assert list(table.columns[:4]) == ["image", "class", "probability", "error"]
    assert table["probability"].dropna().between(1 / 3, 1).all()
    assert table.loc[40, "error"] == "is not an image in a supported format"
    assert pd.isna(table.loc[40, "class"])
    assert table.loc[:39, [f"p:digit {d}" for d in (0, 1, 8)]].sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-5)


def test_a_cache_is_predicted_without_its_backbone(frostbench, bundle, cache, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("frostbench.benchmarks.inference.predict.rebuild_all", None)
    result = frostbench("predict", bundle, cache, "--out", tmp_path / "cached.csv")
    assert result.status == 0, result.err
    table = pd.read_csv(tmp_path / "cached.csv")
    assert table["image"].tolist() == read_table(cache).ids.tolist()
    assert (table["class"] == table["image"].str.split("/").str[0]).mean() > 0.9


def test_a_cache_of_another_recipe_is_refused(frostbench, bundle, photos, tmp_path):
    frostbench("embed", photos, "--cache", tmp_path / "small", "--size", "64")
    result = frostbench("predict", bundle, tmp_path / "small")
    assert result.status == 2
    assert "size: head 224, vectors 64" in result.err


def test_a_line_for_each_image_is_printed(frostbench, bundle, photos):
    result = frostbench("predict", bundle, photos / "digit 8")
    assert result.status == 0
    assert len(result.out.splitlines()) == 12
    assert result.out.splitlines()[0].split("\t")[1].startswith("digit ")


def test_everything_in_a_folder_is_predicted_or_told(frostbench, bundle, photos, tmp_path):
    root, elsewhere = tmp_path / "new", tmp_path / "elsewhere"
    for folder in (root / "__MACOSX", elsewhere):
        folder.mkdir(parents=True)
    picture = sorted((photos / "digit 8").iterdir())[0]
    for place in (root / "1.png", root / "2.HEIC", root / "._1.png", root / "__MACOSX" / "1.png", elsewhere / "3.png"):
        shutil.copy(picture, place)
    (root / "linked").symlink_to(elsewhere)
    (root / "gone.png").symlink_to(root / "nothing.png")
    result = frostbench("predict", bundle, root)
    assert [line.split("\t")[0] for line in result.out.splitlines()] == [f"{root}/1.png", f"{root}/linked/3.png"]
    for note in (
        "1 hidden file or folder was skipped: ._1.png.",
        "1 system file or folder was skipped: __MACOSX.",
        "1 broken link was skipped: gone.png.",
        "1 file of an unsupported format was skipped: 1 × .heic.",
    ):
        assert f"note: {root}: {note}" in result.err


def test_batches_change_no_prediction_and_a_prior_is_applied_once(photos, predictor, monkeypatch):
    files = sorted((photos / "digit 8").iterdir())
    prior, done, priors = read_prior("uniform", predictor.head), [], []
    whole = predict_images(predictor, files, prior=prior)
    under = TrainedHead.under
    monkeypatch.setattr(TrainedHead, "under", lambda head, prior: priors.append(prior) or under(head, prior))
    found = predict_images(predictor, files, prior=prior, batch_size=5, on_progress=done.append)
    assert len([one for one in priors if one is not None]) == 1
    assert done == [*range(5, len(files), 5), len(files)]
    names = ["image", "class", "error"]
    assert found[names].equals(whole[names])
    assert found["probability"].to_numpy() == pytest.approx(whole["probability"].to_numpy(), abs=1e-5)


def test_the_command_tells_how_many_are_done(frostbench, bundle, photos, monkeypatch):
    moves = []
    monkeypatch.setattr("frostbench.app.progress.Bar.move", lambda bar, done, total: moves.append((done, total)))
    count = len(frostbench("predict", bundle, photos / "digit 8").out.splitlines())
    assert moves == [(0, count), (count, count)]


def test_the_class_prior_moves_the_probabilities(frostbench, bundle, photos, predictor, tmp_path):
    files = [photos / "digit 8" / name for name in sorted(p.name for p in (photos / "digit 8").iterdir())]
    shares = {"digit 0": 0.01, "digit 1": 0.01, "digit 8": 0.98}
    (tmp_path / "prior.json").write_text(json.dumps(shares))
    priors = {name: read_prior(name, predictor.head) for name in ("trained", "uniform", str(tmp_path / "prior.json"))}
    means = [predict_images(predictor, files, prior=prior)["p:digit 8"].mean() for prior in priors.values()]
    assert means[0] < means[1] < means[2]
    wanted = predictor.head.log_probabilities(
        predictor.vectors([predictor.prepare(files[0].name, _decoded(files[0]))]),
        torch.tensor([0.01, 0.01, 0.98]),
    ).exp()[0]
    out = tmp_path / "out.csv"
    frostbench("predict", bundle, files[0], "--prior", tmp_path / "prior.json", "--out", out)
    assert pd.read_csv(out).iloc[0, 4:].to_numpy(dtype=float) == pytest.approx(wanted.numpy(), abs=1e-5)


def _decoded(path):
    from frostbench.embedcache.decode import decode_file

    return decode_file(path)


@pytest.fixture(scope="module")
def shifted(cache, tmp_path_factory):
    """The same head with decisions that favour the rare class by far."""
    from frostbench.app.actions.benches import train_one

    out = tmp_path_factory.mktemp("shifted") / "head"
    overrides = ["head.classifier.kind=logreg", "posthoc.shift={kind: given, logits: {digit 8: 50}}"]
    train_one(cache, "plain", overrides, 0, str(out.parent / "results"), out, "cpu", simple=False)
    return out


@pytest.mark.parametrize("source", ["images", "cache"])
def test_decisions_are_those_of_the_bundle_unless_the_largest_probability_is_asked_for(
    frostbench, shifted, photos, cache, tmp_path, source
):
    what, tables = (cache if source == "cache" else photos / "digit 1"), {}
    for words in ((), ("--decisions", "tuned"), ("--decisions", "argmax")):
        out = tmp_path / f"{'-'.join(words) or 'plain'}.csv"
        result = frostbench("predict", shifted, what, *words, "--out", out)
        assert result.status == 0, result.err
        tables[words] = pd.read_csv(out)
    default, tuned, plain = tables.values()
    assert default.equals(tuned)
    assert (tuned["class"] == "digit 8").all()
    assert (tuned["probability"] - tuned["p:digit 8"]).abs().max() < 1e-12
    assert tuned["probability"].min() < 0.1
    assert (plain["class"] == "digit 8").mean() < 0.2
    shares = [name for name in plain if name.startswith("p:")]
    assert (plain["probability"] - plain[shares].max(axis=1)).abs().max() < 1e-12
    assert plain[shares].equals(tuned[shares])


def test_a_prior_for_deployment_needs_no_words(frostbench, cache, photos, tmp_path):
    from frostbench.app.actions.benches import train_one

    shares = {"digit 0": 0.05, "digit 1": 0.05, "digit 8": 0.9}
    base = ["head.classifier.kind=logreg"]
    given = "{" + ", ".join(f"{name}: {share}" for name, share in shares.items()) + "}"
    train_one(cache, "plain", base, 0, str(tmp_path / "results"), tmp_path / "plain", "cpu", refit=False, simple=False)
    deployed = [*base, f"posthoc.deploy_prior={given}"]
    train_one(
        cache, "plain", deployed, 0, str(tmp_path / "results"), tmp_path / "deployed", "cpu", refit=False, simple=False
    )
    (tmp_path / "prior.json").write_text(json.dumps(shares))
    words = {"plain": ["--prior", tmp_path / "prior.json"], "deployed": []}
    found = {}
    for name, extra in words.items():
        result = frostbench("predict", tmp_path / name, photos / "digit 1", *extra, "--out", tmp_path / f"{name}.csv")
        assert result.status == 0, result.err
        found[name] = pd.read_csv(tmp_path / f"{name}.csv").filter(like="p:").to_numpy()
    assert found["deployed"] == pytest.approx(found["plain"], abs=1e-5)
    result = frostbench("predict", tmp_path / "plain", photos / "digit 1", "--out", tmp_path / "own.csv")
    assert np.abs(pd.read_csv(tmp_path / "own.csv").filter(like="p:").to_numpy() - found["plain"]).max() > 1e-3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["PHOTOS", "--prior", "Uniform"], "A prior must be `trained`, `uniform` or a file"),
        (["PHOTOS", "--prior", "NAN"], "Shares of a prior must be non-negative numbers"),
        (["PHOTOS", "--out", "nowhere/x.csv"], "nowhere does not exist. Create it"),
        (["PHOTOS", "--prior", "FILE"], "['digit 8'] are missing and ['digit 9'] are unknown"),
        (
            ["PHOTOS", "--out", "x.xlsx"],
            "a file of predictions must end in .csv or .json or .parquet, got 'x.xlsx'",
        ),
        (["EMPTY"], "must contain images"),
    ],
)
def test_mistakes_are_told_in_words(frostbench, bundle, photos, tmp_path, words, message):
    (tmp_path / "prior.yaml").write_text("digit 0: 0.5\ndigit 1: 0.3\ndigit 9: 0.2\n")
    (tmp_path / "nan.yaml").write_text("digit 0: .nan\ndigit 1: true\ndigit 8: 0.2\n")
    (tmp_path / "empty").mkdir()
    places = {
        "PHOTOS": photos,
        "FILE": tmp_path / "prior.yaml",
        "NAN": tmp_path / "nan.yaml",
        "EMPTY": tmp_path / "empty",
    }
    result = frostbench("predict", bundle, *(places.get(word, word) for word in words))
    assert result.status == 2
    assert message in result.err


def test_nothing_that_could_be_read_is_a_failure(frostbench, bundle, photos, tmp_path):
    result = frostbench("predict", bundle, tmp_path / "none.png", photos / "digit 0" / "broken.png")
    assert result.status == 1
    assert result.out.count("could not be read") == 2


def test_the_bundle_travels_alone(frostbench, bundle, photos, tmp_path):
    shutil.copytree(bundle, tmp_path / "elsewhere")
    here, there = (frostbench("predict", folder, photos / "digit 8") for folder in (bundle, tmp_path / "elsewhere"))
    assert here.out == there.out


def test_weights_other_than_the_head_was_trained_on_are_refused(frostbench, bundle, photos, tmp_path):
    shutil.copytree(bundle, tmp_path / "other")
    card = json.loads((tmp_path / "other" / "card.json").read_text())
    card["recipes"]["avg"]["weights_sha256"] = "0" * 64
    (tmp_path / "other" / "card.json").write_text(json.dumps(card))
    result = frostbench("predict", tmp_path / "other", photos)
    assert result.status == 2
    assert "The card of a bundle must be unchanged" in result.err
    assert "was modified" in result.err
    (tmp_path / "other" / "card.json").write_text(json.dumps(sealed(card)))
    result = frostbench("predict", tmp_path / "other", photos)
    assert result.status == 2
    assert "must have the hash" in result.err
    fields = {name: value for name, value in card["recipes"]["avg"].items() if name != "hash"}
    card["recipes"]["avg"]["hash"] = Recipe.model_validate(fields).hash
    (tmp_path / "other" / "card.json").write_text(json.dumps(sealed(card)))
    result = frostbench("predict", tmp_path / "other", photos)
    assert result.status == 2
    assert "weights_sha256" in result.err


def test_a_backbone_that_changed_is_noticed_by_the_canary(bundle, predictor):
    canary = load(bundle).canary
    check_canary(canary, predictor.backbones)
    moved = Canary(canary.png, {"avg": canary.vectors["avg"].roll(1)})
    with pytest.raises(ValueError, match=r"column 'avg' is off by \d\.\d+ of its length"):
        check_canary(moved, predictor.backbones)
    larger = Canary(canary.png, {"avg": 1.02 * canary.vectors["avg"]})
    with pytest.raises(ValueError, match=r"column 'avg' is off by 0\.019\d+ of its length, more than 0\.01414"):
        check_canary(larger, predictor.backbones)
    small = BytesIO()
    Image.new("RGB", (2, 2)).save(small, "png")
    with pytest.raises(ValueError, match="canary image must be 320 x 320 pixels, but"):
        check_canary(Canary(small.getvalue(), canary.vectors), predictor.backbones)


def test_a_flipped_bit_of_a_cache_is_noticed_by_predict(frostbench, bundle, cache, tmp_path):
    copy = shutil.copytree(cache, tmp_path / "cache")
    for name in ("shards/part-00000.parquet", "items.parquet"):
        for _ in flips(copy / name, 20):
            result = frostbench("predict", bundle, copy, "--out", tmp_path / "out.csv")
            assert result.status == 2
            assert any(sign in result.err for sign in (", got ", ", but "))
    assert not (tmp_path / "out.csv").exists()


def test_an_intensity_range_goes_from_the_command_into_the_bundle(frostbench, tmp_path):
    from PIL import Image

    from frostbench.app.actions.benches import train_one

    random = np.random.default_rng(0)
    for name, level in (("dim", 300), ("bright", 3000)):
        (tmp_path / "twelve" / name).mkdir(parents=True)
        for i in range(30):
            pixels = (level + 100 * random.random((32, 32))).astype(np.uint16)
            Image.fromarray(pixels).save(tmp_path / "twelve" / name / f"{i}.png")
    embed = ("embed", tmp_path / "twelve", "--size", "64", "--cache")
    result = frostbench(*embed, tmp_path / "plain")
    assert "60 of 60 images with 16-bit grey values use a small part of the range" in result.err
    assert "embed with --intensity-range 0:4095" in result.err
    result = frostbench(*embed, tmp_path / "window", "--intensity-range", "0:4095")
    assert (result.status, "small part" in result.err) == (0, False), result.err
    assert "intensity_range [0.0, 4095.0]" in result.out
    assert frostbench(*embed, tmp_path / "plain", "--intensity-range", "0:4095").status == 2
    train_one(
        tmp_path / "window", "plain", ["head.classifier.kind=logreg"], 0, str(tmp_path / "r"), tmp_path / "head", "cpu"
    )
    result = frostbench("predict", tmp_path / "head", tmp_path / "twelve", "--out", tmp_path / "new.csv")
    assert result.status == 0, result.err
    table = read_table(tmp_path / "window")
    vectors = torch.tensor(table.columns["avg"].astype(np.float32))
    wanted = load(tmp_path / "head").head.log_probabilities({"avg": vectors}).exp().numpy()
    found = pd.read_csv(tmp_path / "new.csv").filter(like="p:").to_numpy()
    assert found == pytest.approx(wanted, abs=2e-3)
    for wrong in ("4095", "9:1", "a:b", "0:inf"):
        result = frostbench(*embed, tmp_path / "other", "--intensity-range", wrong)
        assert (result.status, "--intensity-range must be LOW:HIGH" in result.err) == (2, True)


def test_names_neither_break_a_line_nor_become_formulas(frostbench, bundle, photos, tmp_path):
    picture = sorted((photos / "digit 8").iterdir())[0]
    for name in ("=1+1\n.png", "b\t\x1b[31m.png"):
        shutil.copy(picture, tmp_path / name)
    (tmp_path / "-c\r.png").write_bytes(b"x")
    result = frostbench("predict", bundle, tmp_path)
    assert len(result.out.splitlines()) == result.out.count("\n") == 3
    assert [line.split("\t")[0].removeprefix(f"{tmp_path}/") for line in result.out.splitlines()] == [
        r"-c\r.png",
        r"=1+1\n.png",
        r"b\t\x1b[31m.png",
    ]


def test_a_csv_of_names_that_are_formulas_is_told(frostbench, bundle, photos, tmp_path, monkeypatch):
    picture = sorted((photos / "digit 8").iterdir())[0]
    shutil.copy(picture, tmp_path / "=1+1.png")
    monkeypatch.chdir(tmp_path)
    result = frostbench("predict", bundle, "=1+1.png", "--out", "x.csv")
    assert (
        "note: 1 text that a spreadsheet would evaluate as a formula is written with a leading apostrophe" in result.err
    )
    assert pd.read_csv("x.csv")["image"].tolist() == ["'=1+1.png"]
    result = frostbench("predict", bundle, "=1+1.png", "--out", "x.json")
    assert "apostrophe" not in result.err
    assert pd.read_json("x.json")["image"].tolist() == ["=1+1.png"]
