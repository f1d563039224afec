"""Image encoders exported to ONNX, run with onnxruntime."""

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
    """ONNX graph as a module, from [B, 3, S, S] to one tensor per output.

    If the batch size of the graph is fixed, images are split into batches of that size; the last is padded with zeros.
    """

    def __init__(self, session: Any) -> None:
        super().__init__()
        self.session = session
        (self.input,) = session.get_inputs()
        self.outputs = [output.name for output in session.get_outputs()]
        first = self.input.shape[0]
        self.fixed_batch = first if isinstance(first, int) else None

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Run the graph; the session manages its own device, so arrays are passed through the CPU."""
        images = np.ascontiguousarray(x.detach().cpu().numpy())
        step = self.fixed_batch or len(images)
        parts = [self._run(images[start : start + step], step) for start in range(0, len(images), step)]
        return {
            name: torch.from_numpy(np.concatenate([part[index] for part in parts])).to(x.device)
            for index, name in enumerate(self.outputs)
        }

    def _run(self, images: np.ndarray, step: int) -> list[np.ndarray]:
        missing = step - len(images)
        filled = np.concatenate([images, np.zeros((missing, *images.shape[1:]), images.dtype)]) if missing else images
        outputs = self.session.run(None, {self.input.name: filled})
        return [output[: len(images)] for output in outputs]


class OnnxTower:
    """ONNX graph, each of whose outputs [B, D] or [B, T, D] is the pooling `output:NAME`."""

    def __init__(self, model: OnnxModel, path: Path, sha256: str) -> None:
        self.model = model
        self.libraries: Sequence[str] = ("onnxruntime",)
        self.facts: Mapping[str, Any] = {}
        self.half_breaks = False
        self._path = path
        self._sha256 = sha256

    def sha256(self) -> str:
        """Return the hash of the file and of its external data files."""
        return self._sha256

    def set_size(self, size: int) -> None:
        """Check that the graph accepts the size."""
        fixed = [side for side in self.model.input.shape[2:] if isinstance(side, int)]
        if any(side != size for side in fixed):
            raise ValueError(
                f"the size must be the one that the graph was exported for, got {size}, but {self._path.name} takes "
                f"{fixed}. Export it with a dynamic size, or set size to {fixed[0]}."
            )

    def features(self, x: torch.Tensor, layers: Sequence[int]) -> Features:
        """Return the outputs by name."""
        outputs: Features = self.model(x)
        return outputs

    def offer(self, features: Features) -> Offer:
        """Return every output that holds one vector or tokens for each image."""
        names = tuple(f"output:{name}" for name, value in features.items() if value.ndim in (2, 3))
        if not names:
            shapes = {name: list(value.shape) for name, value in features.items()}
            raise ValueError(
                f"an ONNX model must return vectors [B, D] or tokens [B, T, D], but {self._path.name} returns "
                f"{shapes}. Export it with its pooling."
            )
        return Offer(names, names)

    def pool(self, features: Features, name: PoolingName) -> torch.Tensor:
        """Return the output unchanged."""
        return features[name.output or self.model.outputs[0]]


def load_onnx(name: str, weights: Path | None, preparation: Preparation, device: torch.device) -> Loaded:
    """Load an ONNX file; the file `NAME.yaml` beside it states the preprocessing, which `preparation` overrides.

    Raises:
        ValueError: the preprocessing is not stated, the graph is not an image encoder, or onnxruntime lacks the device.
        FileNotFoundError: the file does not exist.
        ModuleNotFoundError: onnx or onnxruntime is not installed.
    """
    path = weights if weights is not None else Path(name)
    if not path.is_file():
        raise FileNotFoundError(
            f"an ONNX model must be a file, but {path} does not exist or is not a file. Check the path."
        )
    config = _preparation(path, preparation).config()
    session = _open(path, device)
    inputs = {value.name: (value.type, value.shape) for value in session.get_inputs()}
    types = [kind == "tensor(float)" and len(shape) == 4 and shape[1] in (3, None) for kind, shape in inputs.values()]
    if types != [True]:
        raise ValueError(
            f"an ONNX image encoder must have one input, float32 images [B, 3, H, W], but {path.name} has {inputs}. "
            "Export only the image tower, with three channels; mean and std are applied before the graph."
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
            f"the device of an ONNX model must be supported by onnxruntime, got {device}, but the installed build has "
            f"{', '.join(onnxruntime.get_available_providers())}. Choose cpu, or install onnxruntime-gpu for CUDA."
        )
    try:
        return onnxruntime.InferenceSession(str(path), providers=[engine])
    # The errors of onnxruntime have no common class but Exception.
    except Exception as error:
        raise ValueError(
            f"onnxruntime must be able to open the model, but opening {path} failed ({type(error).__name__}: "
            f"{first_line(error)}). Check that it is a complete ONNX file."
        ) from error


def _not_installed(package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"ONNX models require the package {package}, which is not installed. Run: pip install 'frostbench[export]'"
    )


def _preparation(path: Path, overrides: Preparation) -> Preparation:
    """Merge the overrides into the preparation stated in the file beside the model."""
    beside = path.with_name(f"{path.name}.yaml")
    settings = overrides.model_dump(exclude_none=True)
    if beside.is_file():
        settings = _read_settings(beside) | settings
    preparation = Preparation.model_validate(settings)
    if not preparation.is_complete:
        required = [field for field in Preparation.model_fields if field != "intensity_range"]
        missing = [field for field in required if getattr(preparation, field) is None]
        raise ValueError(
            "the preprocessing of an ONNX model must be stated, because its graph does not contain it, but "
            f"{path.name} lacks {', '.join(missing)}. Write them into {beside}, or pass a Preparation."
        )
    return preparation


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        text = read_text(path, "a preparation")
        # Aliases could expand a short text to a huge one, and a preparation needs none.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise yaml.YAMLError("aliases are not supported")
        return Preparation.model_validate(yaml.safe_load(text)).model_dump(exclude_none=True)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(
            f"the file beside an ONNX model must hold only {', '.join(Preparation.model_fields)}, but {path} is wrong "
            f"({error}). Correct the file."
        ) from error


def _sha256(path: Path) -> str:
    """Return the hash of a model's file and its external data files.

    Raises:
        ValueError: external data are not in a regular file below the model's folder.
    """
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise _not_installed("onnx") from error
    model = onnx.load(str(path), load_external_data=False)
    locations = {
        entry.value
        for tensor in _tensors_in(model, onnx.TensorProto)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    main = file_sha256(path)
    if not locations:
        return main
    parts = [main, *(file_sha256(_data_file(path, location)) for location in sorted(locations))]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _tensors_in(message: Any, kind: type) -> Iterator[Any]:
    """Yield every tensor of a model: initialisers (dense or sparse) and attributes, also in subgraphs and functions."""
    if isinstance(message, kind):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in [value] if hasattr(value, "ListFields") else value:
                yield from _tensors_in(child, kind)


def _data_file(path: Path, location: str) -> Path:
    file = path.parent / location
    if not file.is_file() or not file.resolve().is_relative_to(path.parent.resolve()):
        raise ValueError(
            f"external data of an ONNX model must be in files below its folder, but {path.name} refers to "
            f"{location!r}. Save the model with its data beside it."
        )
    return file
