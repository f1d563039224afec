"""Builds the record of a run: its results, the facts about its data, and the environment."""

import platform
from collections.abc import Mapping, Sequence

import torch

from frostbench.benchmarks.runs.record import DataFacts, Evaluation, RunRecord
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.card import versions
from frostbench.heads.ensemble import Predictive
from frostbench.heads.spec import canonical
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import ENGINE_VERSION
from frostbench.training.metrics.counts import shot_of
from frostbench.training.run import RunSpec


def record_of(
    key: str,
    run: RunSpec,
    finished: Finished,
    curve: Sequence[Epoch],
    data: DataFacts,
    evaluations: Mapping[str, Evaluation],
    device: str,
) -> RunRecord:
    """Build the record of a finished run."""
    head = finished.head
    names = list(curve[0].metrics) if curve else []
    logs = {name: tuple(event.logs.get(name) for event in curve) for name in (curve[0].logs if curve else ())}
    by_epoch: dict[str, tuple[float | None, ...]] = {"loss": tuple(event.loss for event in curve)} if curve else {}
    return RunRecord(
        format_version=1,
        key=key,
        engine=ENGINE_VERSION,
        spec=canonical(run),
        full_spec=run.model_dump(mode="json"),
        data=data,
        evaluations=dict(evaluations),
        shot=tuple(shot_of(count) for count in data.train_counts),
        temperature=head.temperature,
        reason=finished.reason,
        epoch=finished.epoch,
        seconds=finished.seconds,
        gradient_norm=finished.gradient_norm,
        curve=by_epoch | {name: tuple(event.metrics[name] for event in curve) for name in names} | logs,
        environment=environment(device),
        chosen=finished.chosen,
        notes=head.warnings,
    )


def data_facts(cache: str, table: FeatureTable, split: Split, head: Predictive, background: Sequence[int]) -> DataFacts:
    """Describe the data that a head was trained and evaluated on."""
    return DataFacts(
        cache=cache,
        table=table.content_hash,
        split=split.hash,
        columns=head.columns,
        class_names=table.class_names,
        background=tuple(background),
        rows=dict(split.report.counts),
        groups=dict(split.report.groups),
        train_counts=tuple(head.counts.tolist()),
        missing=dict(split.report.missing),
        small=split.report.small,
        forced=split.report.forced,
        warnings=split.report.warnings,
        folds=0 if split.folds is None else int(split.folds.max()) + 1,
    )


def environment(device: str) -> dict[str, str]:
    """Describe what may change the low bits of a run: versions, threads, machine type and device."""
    machine = {"python": platform.python_version(), "machine": platform.machine(), "device": device}
    return machine | {"threads": str(torch.get_num_threads())} | versions()
