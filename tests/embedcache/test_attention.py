"""Attention of the class token, compared with a direct computation."""

import threading
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from seeing import Halves
from transformers import DINOv3ViTConfig, DINOv3ViTImageProcessorFast, DINOv3ViTModel

from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.backbones.attention import class_attention
from frostbench.embedcache.extraction.backbone_group import BackboneGroup


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def saved(model: torch.nn.Module, path: Path) -> Path:
    torch.manual_seed(0)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.1 * torch.rand_like(tensor))
    save_file(model.state_dict(), path)
    return path


def images(size: int) -> torch.Tensor:
    return torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(size))


def test_attention_of_a_timm_transformer_is_its_softmax(tmp_path: Path) -> None:
    path = saved(timm.create_model("test_vit"), tmp_path / "vit.safetensors")
    backbone = load_backbone("timm", "test_vit", weights=path, size=64, autocast="float32")
    block = backbone.model.blocks[-1]
    inputs: list[torch.Tensor] = []
    handle = block.attn.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    before = backbone.embed(images(64))["cls"]
    handle.remove()
    with torch.no_grad():
        x, heads = inputs[0], block.attn.num_heads
        q, k, _ = block.attn.qkv(x).reshape(2, x.shape[1], 3, heads, -1).permute(2, 0, 3, 1, 4)
        q, k = block.attn.q_norm(q), block.attn.k_norm(k)
        wanted = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)[:, :, 0, 1:].mean(1)
    found = class_attention(backbone, images(64))
    torch.testing.assert_close(found.flatten(1), wanted, atol=1e-5, rtol=1e-4)
    assert found.shape == (2, 4, 4)
    # The model is unchanged.
    assert torch.equal(backbone.embed(images(64))["cls"], before)


def test_attention_of_transformers_leaves_register_tokens_out(tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = DINOv3ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        patch_size=16,
        image_size=64,
        num_register_tokens=4,
    )
    model = DINOv3ViTModel(config).eval()
    model.save_pretrained(tmp_path / "m")
    DINOv3ViTImageProcessorFast(size={"height": 64, "width": 64}).save_pretrained(tmp_path / "m")
    backbone = load_backbone("huggingface", str(tmp_path / "m"), size=64, autocast="float32")
    plain = DINOv3ViTModel.from_pretrained(tmp_path / "m", attn_implementation="eager").eval()
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (backbone.recipe.mean, backbone.recipe.std))
    with torch.no_grad():
        attention = plain(pixel_values=(images(64) / 255 - mean) / std, output_attentions=True).attentions[-1]
    before = backbone.embed(images(64))["cls"]
    found = class_attention(backbone, images(64))
    torch.testing.assert_close(found.flatten(1), attention[:, :, 0, 5:].mean(1), atol=1e-5, rtol=1e-4)
    assert torch.equal(backbone.embed(images(64))["cls"], before)
    assert backbone.model.config._attn_implementation == "sdpa"


def test_a_model_without_a_class_token_says_so(tmp_path: Path) -> None:
    path = saved(timm.create_model("test_resnet"), tmp_path / "resnet.safetensors")
    backbone = load_backbone("timm", "test_resnet", weights=path, size=64, autocast="float32")
    with pytest.raises(ValueError, match=r"has none\. Set saliency=occlusion"):
        class_attention(backbone, images(64))


def test_saliency_and_embedding_take_turns() -> None:
    """A thread that computes saliency never changes the model during a forward pass."""

    class Watched(Halves):
        def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            seen.append(lock.locked())
            return super().embed(batch)

    lock, seen = threading.Lock(), list[bool]()
    members = BackboneGroup({"": Watched()}, using=lock)
    members.embed([members.prepare(np.zeros((8, 8, 3), np.uint8))])
    assert (seen, lock.locked(), members.is_shared) == ([True], False, True)
