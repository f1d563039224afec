"""Shared fixtures: a blocked hub, and files of random weights."""

from collections.abc import Callable
from pathlib import Path

import pytest
import timm
from safetensors.torch import save_file
from tiny_models import away_from_neutral
from tiny_transformers import MODELS


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture(scope="session")
def random_weights(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a factory of files with random weights of a timm model."""
    folder = tmp_path_factory.mktemp("weights")

    def make(name: str) -> Path:
        path = folder / f"{name}.safetensors"
        if not path.exists():
            save_file(away_from_neutral(lambda: timm.create_model(name)).state_dict(), path)
        return path

    return make


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a factory of folders with the hub's files of a tiny transformers model."""
    root = tmp_path_factory.mktemp("checkpoints")

    def make(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            build, processor, _ = MODELS[name]
            away_from_neutral(build, by=0.1).save_pretrained(folder)
            processor().save_pretrained(folder)
        return folder

    return make
