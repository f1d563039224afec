"""Image embedding loops of other tools, each from paths to vectors float32 [N, D].

Every loop gets the same weights in evaluation mode and timm's evaluation transform, so that only the machinery differs.
The first runs the tool itself. The others are reimplemented from the tools' documentation, because the tools download
weights from a hub or need packages that conflict with ours.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from transformers import ImageFeatureExtractionPipeline, TimmWrapperConfig, TimmWrapperModel
from transformers.models.timm_wrapper.image_processing_timm_wrapper import TimmWrapperImageProcessor

from frostbench.benchmarks.speed.subjects import Subject
from frostbench.embedcache.extraction.pipeline import usable_cores

Loop = Callable[[Sequence[Path]], np.ndarray]


def loops(subject: Subject) -> Mapping[str, Loop]:
    """Return every loop by name, ready to run on the subject's model."""
    written = {"embetter": embetter, "data_loader": data_loader, "clip_retrieval": clip_retrieval}
    return {"hf_pipeline": hf_pipeline(subject), **{name: partial(loop, subject) for name, loop in written.items()}}


def hf_pipeline(subject: Subject, batch: int | None = None) -> Loop:
    """Run the image-feature-extraction pipeline of transformers with batches and pooled vectors."""
    config = dict(subject.config)
    settings: Any = TimmWrapperConfig
    wrapped: Any = TimmWrapperModel(settings(architecture=subject.architecture, pretrained_cfg=config))
    wrapped.timm_model = subject.model
    processor = TimmWrapperImageProcessor(pretrained_cfg=config, architecture=subject.architecture)
    device = subject.backbone.device
    pipeline: Any = ImageFeatureExtractionPipeline(model=wrapped.eval(), image_processor=processor, device=device)

    def run(paths: Sequence[Path]) -> np.ndarray:
        found = pipeline([str(path) for path in paths], batch_size=batch or subject.backbone.batch, pool=True)
        return np.asarray([vectors[0] for vectors in found], np.float32)

    return run


def embetter(subject: Subject, paths: Sequence[Path]) -> np.ndarray:
    """Embed like embetter's ImageLoader and TimmEncoder: load all images, then embed them singly, with gradients."""
    transform = subject.transform()
    pictures = [Image.open(path).convert("RGB") for path in paths]
    rows = [transform(picture).unsqueeze(0) for picture in pictures]
    return np.array([subject.model(row).squeeze(0).detach().numpy() for row in rows])


def data_loader(subject: Subject, paths: Sequence[Path]) -> np.ndarray:
    """Embed like lightly: a DataLoader with one process per core, keeping everything in memory."""
    return torch.cat(list(_batches(subject, paths))).numpy()


def clip_retrieval(subject: Subject, paths: Sequence[Path]) -> np.ndarray:
    """Embed like clip-retrieval: a DataLoader, unit vectors as float16 in .npy, names in Parquet."""
    found = []
    for vectors in _batches(subject, paths):
        found.append((vectors / vectors.norm(dim=-1, keepdim=True)).to(torch.float16).numpy())
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        np.save(Path(folder) / "img_emb_0.npy", np.concatenate(found))
        names = pd.DataFrame({"image_path": [str(path) for path in paths]})
        names.to_parquet(Path(folder) / "metadata_0.parquet")
        stored: np.ndarray = np.load(Path(folder) / "img_emb_0.npy")
    return stored.astype(np.float32)


class Pictures(Dataset[torch.Tensor]):
    """Image files, decoded and prepared on access."""

    def __init__(self, paths: Sequence[Path], transform: Callable[..., torch.Tensor]) -> None:
        self._paths, self._transform = paths, transform

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> torch.Tensor:
        return self._transform(Image.open(self._paths[row]).convert("RGB"))


@torch.no_grad()
def _batches(subject: Subject, paths: Sequence[Path]) -> list[torch.Tensor]:
    loader = DataLoader(
        Pictures(paths, subject.transform()), batch_size=subject.backbone.batch, num_workers=usable_cores()
    )
    device = subject.backbone.device
    return [subject.model(batch.to(device)).float().cpu() for batch in loader]
