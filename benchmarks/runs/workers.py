"""Further processes that train the runs of a bench beside this one; claims keep them from repeating work."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from frostbench.benchmarks.runs.events import BenchDone
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.streaming import Stream
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.extraction.distributed import RayEngine, connected

PATIENCE_SECONDS = 30.0
"""Time that a worker gets to end by itself once every run is stored."""
TRACEBACK = "Traceback (most recent call last)"


class Workers:
    """Processes that train the same bench; they end when no run is left."""

    def problems(self) -> list[str]:
        """Wait for the processes to end, and describe those that failed."""
        return []


class _Local(Workers):
    def __init__(self, processes: list["subprocess.Popen[bytes]"], logs: list[Path]) -> None:
        self._processes, self._logs = processes, logs

    def problems(self) -> list[str]:
        found = []
        for process, log in zip(self._processes, self._logs, strict=True):
            try:
                status = process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.terminate()
                status = process.wait()
            text = log.read_text("utf-8", "replace").strip()
            # Status 1 without a traceback says that a run failed, which the bench of this process reports itself.
            if status not in (0, 1) or (status == 1 and TRACEBACK in text):
                lines = text.splitlines() or ["it printed nothing"]
                found.append(f"worker process {process.pid} ended with status {status}: {lines[-1]}")
        return found


class _OnRay(Workers):
    def __init__(self, ray: Any, tasks: list[Any]) -> None:
        self._ray, self._tasks = ray, tasks

    def problems(self) -> list[str]:
        found = []
        for number, task in enumerate(self._tasks, start=1):
            try:
                self._ray.get(task)
            except self._ray.exceptions.RayError as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                found.append(f"Ray worker {number} failed: {(lines or [type(error).__name__])[-1]}")
        return found


@contextmanager
def workers_beside(
    bench: BenchSpec, workers: int, device: str = "cpu", stream: Stream = "auto", ray_address: str | None = None
) -> Iterator[Workers]:
    """Start `workers` - 1 further processes for a bench, and end them with the block if they still run.

    The processes share the cores: each gets its part of the threads of this one. With `ray_address` they are Ray tasks
    on the machines of a cluster, which must see the caches and the store under the same paths.

    Raises:
        DistributedError: Ray is not installed.
    """
    if workers <= 1 and ray_address is None:
        yield Workers()
    elif ray_address is None:
        with _fewer_threads(workers) as threads:
            yield from _local(bench, workers - 1, threads, device, stream)
    else:
        yield from _on_ray(bench, max(workers - 1, 1), device, stream, ray_address)


@contextmanager
def _fewer_threads(workers: int) -> Iterator[int]:
    before = torch.get_num_threads()
    threads = max(1, before // workers)
    torch.set_num_threads(threads)
    try:
        yield threads
    finally:
        torch.set_num_threads(before)


def _local(bench: BenchSpec, count: int, threads: int, device: str, stream: Stream) -> Iterator[Workers]:
    with tempfile.TemporaryDirectory(prefix="frostbench-workers-") as scratch:
        file = Path(scratch) / "bench.yaml"  # JSON is YAML
        file.write_text(json.dumps(bench.model_dump(mode="json")), encoding="utf-8")
        words = [sys.executable, "-m", "frostbench", "bench", "run", str(file), "--device", device, "--stream", stream]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        processes, logs = [], [Path(scratch) / f"{number}.log" for number in range(count)]
        try:
            for log in logs:
                with log.open("wb") as output:
                    processes.append(
                        subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
                    )
            yield _Local(processes, logs)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()
                process.wait()


def _on_ray(bench: BenchSpec, count: int, device: str, stream: Stream, address: str) -> Iterator[Workers]:
    engine = RayEngine(_nothing, actors=count, address=None if address == "local" else address)
    with connected(engine) as ray:
        gpus = 1.0 if device.startswith("cuda") else 0.0
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(run_as_worker)
        text = json.dumps(bench.model_dump(mode="json"))
        tasks = [task.remote(text, str(Path.cwd()), device, stream) for _ in range(count)]
        try:
            yield _OnRay(ray, tasks)
        finally:
            for one in tasks:
                ray.cancel(one, force=True)


def _nothing() -> Any:
    raise NotImplementedError("a bench loads no backbone")


def run_as_worker(bench: str, folder: str, device: str, stream: Stream) -> int:
    """Run a bench, given as JSON, in a folder; return the number of runs trained here."""
    os.chdir(folder)
    trained = 0
    for event in run_bench(parse(BenchSpec, json.loads(bench)), device=device, stream=stream):
        if isinstance(event, BenchDone):
            trained = event.trained
    return trained
