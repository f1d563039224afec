"""Any image encoder that was exported to ONNX, run by onnxruntime."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import nn

from frostbench.embedcache.backbones.pooling import PoolingName
from frostbench.embedcache.backbones.preparation import Preparation
from frostbench.embedcache.backbones.sizing import first_line
from frostbench.embedcache.backbones.tower import Features, Loaded, Offer
from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.plain_text import read_text


class OnnxModel(nn.Module):
    """An ONNX graph as a module: [B, 3, S, S] to one tensor per output.

    A graph with a fixed batch is fed so many images at a time, the last of them filled up with black ones.
    """

    def __init__(self, session: Any) -> None:
        super().__init__()
        self.session = session
        (self.input,) = session.get_inputs()
        self.outputs = [output.name for output in session.get_outputs()]
        first = self.input.shape[0]
        self.fixed_batch = first if isinstance(first, int) else None

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Run the graph; the session has its own place, so arrays go through the CPU."""
        images = np.ascontiguousarray(x.detach().cpu().numpy())
        step = self.fixed_batch or len(images)
        parts = [self._run(images[start : start + step], step) for start in range(0, len(images), step)]
        return {
            name: torch.from_numpy(np.concatenate([part[place] for part in parts])).to(x.device)
            for place, name in enumerate(self.outputs)
        }

    def _run(self, images: np.ndarray, step: int) -> list[np.ndarray]:
        missing = step - len(images)
        filled = np.concatenate([images, np.zeros((missing, *images.shape[1:]), images.dtype)]) if missing else images
        found = self.session.run(None, {self.input.name: filled})
        return [output[: len(images)] for output in found]


class OnnxTower:
    """An ONNX graph; each of its outputs [B, D] or [B, T, D] is a pooling of its own, `output:NAME`."""

    def __init__(self, model: OnnxModel, path: Path, sha256: str) -> None:
        self.model = model
        self.libraries: Sequence[str] = ("onnxruntime",)
        self.facts: Mapping[str, Any] = {}
        self.half_breaks = False
        self._path = path
        self._sha256 = sha256

    def sha256(self) -> str:
        """Of the file, and of the files with tensors beside it."""
        return self._sha256

    def set_size(self, size: int) -> None:
        """Only a check: a graph may be made for one size."""
        own = [side for side in self.model.input.shape[2:] if isinstance(side, int)]
        if any(side != size for side in own):
            raise ValueError(
                f"images must have the size that the graph was exported for, however: {self._path.name} takes {own} "
                f"and {size} was asked for. Export it with a free size, or give {own[0]}."
            )

    def features(self, x: torch.Tensor, layers: Sequence[int]) -> Features:
        """By output, under its name."""
        found: Features = self.model(x)
        return found

    def offer(self, features: Features) -> Offer:
        """Every output that holds one vector, or tokens, for each image."""
        fit = tuple(f"output:{name}" for name, value in features.items() if value.ndim in (2, 3))
        if not fit:
            shapes = {name: list(value.shape) for name, value in features.items()}
            raise ValueError(
                f"an ONNX model must give vectors [B, D] or tokens [B, T, D], however: {self._path.name} gives "
                f"{shapes}. Export it with its pooling."
            )
        return Offer(fit, fit)

    def pool(self, features: Features, name: PoolingName) -> torch.Tensor:
        """The output as it is."""
        return features[name.output or self.model.outputs[0]]


def load_onnx(name: str, weights: Path | None, asked: Preparation, device: torch.device) -> Loaded:
    """The model in a file, whose preprocessing `asked` or a file `NAME.yaml` beside it states.

    Raises:
        ValueError: the preprocessing is not stated, the graph is of another kind, or onnxruntime lacks the device.
        FileNotFoundError: there is no such file.
        ModuleNotFoundError: onnxruntime is not installed.
    """
    path = weights if weights is not None else Path(name)
    if not path.is_file():
        raise FileNotFoundError(f"an ONNX model is a file, however: {path} is none. Is the path right?")
    config = _preparation(path, asked).config()
    session = _open(path, device)
    inputs = {one.name: (one.type, one.shape) for one in session.get_inputs()}
    types = [kind == "tensor(float)" and len(shape) == 4 and shape[1] in (3, None) for kind, shape in inputs.values()]
    if types != [True]:
        raise ValueError(
            f"an ONNX image encoder has one input, float32 images [B, 3, H, W], however: {path.name} has {inputs}. "
            "Export the image tower alone, with three channels; mean and std are applied before it."
        )
    return OnnxTower(OnnxModel(session), path, _sha256(path)), config


def _open(path: Path, device: torch.device) -> Any:
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise _not_installed("onnxruntime") from error
    engine = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device.type)
    if engine not in onnxruntime.get_available_providers():
        raise ValueError(
            f"ONNX models run on the device that onnxruntime was built for, however: {device} was asked for and it has "
            f"{', '.join(onnxruntime.get_available_providers())}. Choose cpu, or install onnxruntime-gpu for CUDA."
        )
    try:
        return onnxruntime.InferenceSession(str(path), providers=[engine])
    # Its errors have no common class but Exception.
    except Exception as error:
        raise ValueError(
            f"onnxruntime must be able to open the model, however: {path} gives {type(error).__name__}: "
            f"{first_line(error)} Is it a complete ONNX file?"
        ) from error


def _not_installed(package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"ONNX models need the package {package}, however: it is not installed. Run: pip install 'frostbench[export]'"
    )


def _preparation(path: Path, asked: Preparation) -> Preparation:
    """What was asked for, over what the file beside the model states."""
    beside = path.with_name(f"{path.name}.yaml")
    told = asked.model_dump(exclude_none=True)
    if beside.is_file():
        told = _read_beside(beside) | told
    found = Preparation.model_validate(told)
    if not found.is_complete:
        needed = [field for field in Preparation.model_fields if field != "intensity_range"]
        open_fields = [field for field in needed if getattr(found, field) is None]
        raise ValueError(
            f"the preprocessing of an ONNX model must be stated, for a graph does not hold it, however: "
            f"{', '.join(open_fields)} of {path.name} are open. Write them as YAML into {beside.name} beside it, or "
            "pass a Preparation."
        )
    return found


def _read_beside(beside: Path) -> dict[str, Any]:
    try:
        text = read_text(beside, "a preparation")
        # A short text can stand for a huge one by aliases, and a preparation needs none.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise yaml.YAMLError("aliases are not read here")
        return Preparation.model_validate(yaml.safe_load(text)).model_dump(exclude_none=True)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(
            f"the file beside an ONNX model holds {', '.join(Preparation.model_fields)}, however: {beside}: {error}. "
            "Correct it."
        ) from error


def _sha256(path: Path) -> str:
    """The hash of a model's file, and where tensors lie in files of their own, of those too.

    Raises:
        ValueError: a tensor is said to lie outside the model's folder, or in no regular file.
    """
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise _not_installed("onnx") from error
    model = onnx.load(str(path), load_external_data=False)
    places = {
        entry.value
        for tensor in _tensors_in(model, onnx.TensorProto)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    own = file_sha256(path)
    if not places:
        return own
    parts = [own, *(file_sha256(_beside(path, place)) for place in sorted(places))]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _tensors_in(message: Any, kind: type) -> Iterator[Any]:
    """Every tensor of a model: initialisers, dense or sparse, and those of nodes in graphs, subgraphs and functions."""
    if isinstance(message, kind):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in [value] if hasattr(value, "ListFields") else value:
                yield from _tensors_in(one, kind)


def _beside(path: Path, place: str) -> Path:
    found = path.parent / place
    if not found.is_file() or not found.resolve().is_relative_to(path.parent.resolve()):
        raise ValueError(
            f"tensors of an ONNX model lie in files below its folder, however: {path.name} names {place!r}. Save the "
            "model with its data beside it."
        )
    return found
