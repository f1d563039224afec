"""Tiny models of transformers and the processors that go with them, by their names."""

import torch
import transformers

LVD = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
SAT = ((0.430, 0.411, 0.296), (0.213, 0.156, 0.143))
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 4}


def dinov3_vit() -> torch.nn.Module:
    config = transformers.DINOv3ViTConfig(**SMALL, intermediate_size=64, num_register_tokens=4, layerscale_value=0.5)
    return transformers.DINOv3ViTModel(config)


def dinov3_plus() -> torch.nn.Module:
    """With the gated MLP of S+, H+ and 7B."""
    config = transformers.DINOv3ViTConfig(**SMALL, intermediate_size=64, num_register_tokens=4, use_gated_mlp=True)
    return transformers.DINOv3ViTModel(config)


def dinov3_convnext() -> torch.nn.Module:
    return transformers.DINOv3ConvNextModel(
        transformers.DINOv3ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1] * 4)
    )


def dinov2() -> torch.nn.Module:
    return transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, patch_size=14, image_size=70))


def dinov2_registers() -> torch.nn.Module:
    config = transformers.Dinov2WithRegistersConfig(**SMALL, patch_size=14, image_size=70, num_register_tokens=3)
    return transformers.Dinov2WithRegistersModel(config)


def dinov3_processor(mean: tuple[float, ...] = LVD[0], std: tuple[float, ...] = LVD[1]) -> object:
    return transformers.DINOv3ViTImageProcessor(image_mean=list(mean), image_std=list(std))


def dinov2_processor() -> object:
    return transformers.BitImageProcessor(
        size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}, image_mean=LVD[0], image_std=LVD[1]
    )


MODELS = {
    "dinov3_vit": (dinov3_vit, dinov3_processor, 5),
    "dinov3_plus": (dinov3_plus, dinov3_processor, 5),
    "dinov2": (dinov2, dinov2_processor, 1),
    "dinov2_registers": (dinov2_registers, dinov2_processor, 4),
    "dinov3_convnext": (dinov3_convnext, dinov3_processor, 1),
}
