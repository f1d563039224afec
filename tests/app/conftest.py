import sys
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from frostbench.app.cli import main


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


@pytest.fixture
def frostbench(capsys, monkeypatch):
    """Run the command as a shell would: status, standard output and standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["frostbench", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        output = capsys.readouterr()
        return Result(int(end.value.code or 0), output.out, output.err)

    return run


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Forty zeros, forty ones and twelve eights as PNG files, one folder for each class; one file is broken."""
    root = tmp_path_factory.mktemp("photos") / "photos"
    x, y = load_digits(return_X_y=True)
    for digit, count in ((0, 40), (1, 40), (8, 12)):
        (root / f"digit {digit}").mkdir(parents=True)
        for i in np.flatnonzero(y == digit)[:count]:
            pixels = (x[i].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            image = Image.fromarray(pixels).resize((48, 48), Image.Resampling.BICUBIC)
            image.save(root / f"digit {digit}" / f"{i:04d}.png")
    (root / "digit 0" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    return root


def embedded(photos, folder, **options):
    """A cache of the photos by the bundled EfficientNet-Lite0."""
    from frostbench.app.actions.embedding import embed_listing
    from frostbench.embedcache.backbones import load_backbone
    from frostbench.embedcache.sources.source import list_folder

    embed_listing(list_folder(photos), load_backbone("bundled", "efficientnet_lite0", **options), folder)
    return folder


@pytest.fixture(scope="session")
def cache(photos, tmp_path_factory):
    """The photos embedded as the bundled model wants them."""
    return embedded(photos, tmp_path_factory.mktemp("cache") / "digits")


@pytest.fixture(scope="session")
def small_cache(photos, tmp_path_factory):
    """The same at 64 pixels, for tests that embed again."""
    return embedded(photos, tmp_path_factory.mktemp("small") / "digits", size=64)


@pytest.fixture(scope="session")
def bench_file(cache, tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "bench.yaml"
    path.write_text(
        f"""
name: digits
caches: ['{cache}']
store: '{path.parent / "results"}'
preset: plain
base:
  train.schedule: {{epochs: 4, min_steps: 0}}
toggles:
  weighted: {{train.loss.class_weight.kind: effective}}
  solved: {{head.classifier.kind: logreg, train.schedule: {{epochs: 50, min_steps: 1000}}}}
seeds: [0, 1]
"""
    )
    return path


@pytest.fixture(scope="session")
def bundle(cache, tmp_path_factory):
    """A calibrated logistic regression on the photos, exported."""
    from frostbench.app.actions.benches import train_one

    out = tmp_path_factory.mktemp("bundle") / "head"
    overrides = ["head.classifier.kind=logreg", "posthoc.calibration.kind=temperature"]
    train_one(cache, "plain", overrides, 0, str(out.parent / "results"), out, "cpu", refit=False, simple=False)
    return out
