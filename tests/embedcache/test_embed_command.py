"""The embed command that the doctor advises: it continues a cache made with any options."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import timm
from colour_images import RECIPE, files_of
from PIL import Image
from safetensors.torch import save_file
from tiny_models import away_from_neutral
from typer.testing import CliRunner

from frostbench.app.cli import app
from frostbench.embedcache.checking.doctor import diagnose
from frostbench.embedcache.extraction.embed_command import embed_command, run_again
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.store import shard_path

REMINDER = "run (with --preparation and --weights if the cache was made with them): frostbench embed "
EVERY = {
    "--group-regex": "^(..)_",
    "--time-regex": r"\d{8}",
    "--intensity-range": "-1024:1048575.5",
    "--autocast": "bfloat16",
    "--shard-rows": "2",
    "--pixel-limit": "5000",
}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A manifest of five images with grey values of more than 8 bits, weights of a small model and a preparation."""
    lines = ["path,label"]
    for i in range(5):
        (tmp_path / "images").mkdir(exist_ok=True)
        name = f"p{i // 2}_2024010{i + 1}_{i}.tif"
        Image.fromarray(np.full((8, 9), 1000 * i - 900, np.int32)).save(tmp_path / "images" / name)
        lines.append(f"{name},{'ab'[i % 2]}")
    (tmp_path / "the list.csv").write_text("\n".join(lines) + "\n")
    model = away_from_neutral(lambda: timm.create_model("test_vit"))
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    (tmp_path / "p.json").write_text(json.dumps({"crop": "squash", "interpolation": "box", "mean": [0.1, 0.2, 0.3]}))
    return tmp_path


def frostbench(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, words)
    return result.exit_code, f"{result.output} {result.exception}"


def test_the_command_of_a_cache_made_with_every_option_continues_it(world: Path) -> None:
    files = ["--weights", str(world / "w.safetensors"), "--preparation", str(world / "p.json")]
    words = ["embed", str(world / "the list.csv"), "--cache", str(world / "c"), "--root", str(world / "images"), *files]
    words += ["--backbone", "tiny=timm:test_vit", "--pool", "patch_mean", "--pool", "gem:2.5", "--size", "64"]
    words += ["--size", "96", *(word for pair in EVERY.items() for word in pair)]
    assert frostbench(*words)[0] == 0, frostbench(*words)
    before = files_of(world / "c")
    shard_path(world / "c", 1).unlink()
    (finding,) = [found for found in diagnose(world / "c") if "is missing" in found.what]
    (world / "c" / "manifest.json").unlink()
    advice = finding.repair.partition(", then ")[2]
    assert advice.startswith(REMINDER)
    again = shlex.split(advice.removeprefix(REMINDER))
    given = dict(zip(again[1::2], again[2::2], strict=True))
    assert EVERY.items() <= given.items()
    told = frostbench("embed", *again, *files[:2])[1]
    assert "must be continued with its original settings, but in" in told
    assert "crop of column tiny@64.gem:2.5 was 'squash'" in told, told
    status, told = frostbench("embed", *again, *files)
    assert status == 0, told
    assert files_of(world / "c") == before


def columns_of(**recipes: Recipe) -> dict[str, object]:
    return {
        "shard_rows": 4096,
        "columns": {
            name.replace("__", "."): {"recipe": recipe.model_dump(mode="json")} for name, recipe in recipes.items()
        },
    }


def test_what_differs_between_backbones_was_chosen_by_default_and_is_left_out() -> None:
    large = RECIPE.model_copy(update={"model": "large", "size": 16, "autocast": "bfloat16"})
    small = RECIPE.model_copy(update={"autocast": "float32"})
    own = columns_of(a__cls=small, a__patch_mean=small, b__cls=large)
    words = "frostbench embed SOURCE --cache c --backbone a=external:colours --backbone b=external:large"
    assert embed_command(Path("c"), own) == words
    same = small.model_copy(update={"model": "large"})
    alike = columns_of(a__patch_mean=small, a__cls=small, b__cls=same, b__patch_mean=same)
    assert embed_command(Path("c"), alike) == f"{words} --pool cls --pool patch_mean --size 8 --autocast float32"


@pytest.mark.parametrize(
    ("provider", "start"),
    [
        ("external", "run: frostbench"),
        ("bundled", "run (with --preparation if the cache was made with it): frostbench"),
        ("timm", REMINDER.rstrip()),
    ],
)
def test_the_files_that_a_backbone_may_have_been_loaded_with_are_reminded_of(provider: str, start: str) -> None:
    whole = {"weights_sha256": "0" * 64, "antialias": True, "resizer": "pillow", "decoder": "pillow"}
    whole |= {"std": (1.0, 1.0, 1.0), "autocast": "float32", "pooling": "cls", "normalised": False}
    recipe = RECIPE.model_copy(update={"provider": provider, "crop_fraction": 1.0, **whole})
    assert run_again(Path("c"), columns_of(cls=recipe)).startswith(start)
