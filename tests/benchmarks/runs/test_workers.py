import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import psutil
import pytest
import torch
from short_benches import SHORT, bench_of, kinds

from frostbench.benchmarks.runs.events import RunDone
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import is_finished
from frostbench.benchmarks.runs.workers import _Local, workers_beside

TOGGLES = {"lda": {"preset": "lda"}, "ridge": {"preset": "ridge"}}


def keys_of(bench):
    return [key for keys in bench_rows(bench)[0].rows.values() for key in keys]


def test_one_worker_is_this_process(cache):
    before = psutil.Process().children()
    with workers_beside(bench_of(cache), 1) as others:
        assert psutil.Process().children() == before
        assert others.problems() == []


@pytest.mark.slow
def test_workers_share_the_runs_and_the_threads(cache):
    bench = bench_of(cache, toggles=TOGGLES, seeds=(0, 1, 2))
    threads = torch.get_num_threads()
    with workers_beside(bench, 2) as others:
        assert torch.get_num_threads() == max(1, threads // 2)
        events = list(run_bench(bench))
        assert others.problems() == []
    assert torch.get_num_threads() == threads
    assert all(is_finished(cache.parent / "runs", key) for key in keys_of(bench))
    assert (events[-1].trained, events[-1].skipped) == (len(kinds(events, RunDone)), 9 - len(kinds(events, RunDone)))


def test_a_worker_that_dies_is_reported_and_its_runs_are_trained(cache):
    bench, before = bench_of(cache, toggles=TOGGLES), set(psutil.Process().children())
    with workers_beside(bench, 2) as others:
        (worker,) = set(psutil.Process().children()) - before
        os.kill(worker.pid, signal.SIGKILL)
        *_, end = run_bench(bench)
        assert others.problems() == [f"worker process {worker.pid} ended with status -9: it printed nothing"]
    assert all(is_finished(cache.parent / "runs", key) for key in keys_of(bench))
    assert end.trained == 6


def test_workers_end_with_the_block(cache):
    before = set(psutil.Process().children())
    started = []

    def interrupted():
        with workers_beside(bench_of(cache), 3):
            started.extend(set(psutil.Process().children()) - before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [process.is_running() for process in started] == [False, False]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise SystemExit(1)", None),
        ("raise RuntimeError('the disk is on fire')", "ended with status 1: RuntimeError: the disk is on fire"),
    ],
    ids=["a run failed", "the worker crashed"],
)
def test_a_crash_is_not_taken_for_a_failed_run(tmp_path, code, problem):
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=output, stderr=output)
    found = _Local([process], [log]).problems()
    assert found == ([] if problem is None else [f"worker process {process.pid} {problem}"])


DYING = '''
import os
from pathlib import Path
from typing import Literal

from frostbench.heads.spec import Spec


class Dying(Spec):
    """Cross entropy that ends the first process that computes it, unless that is `parent`."""

    kind: Literal["dying"] = "dying"
    marker: str = ""
    parent: int = 0

    def __call__(self, scores, targets):
        if os.getpid() != self.parent and not Path(self.marker).exists():
            Path(self.marker).touch()
            os._exit(3)
        return -(targets * scores.log_p).sum(-1)
'''


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_ray_worker_that_dies_leaves_its_runs_to_the_others(cache, tmp_path):
    # Importing ray here would make it listen on all interfaces: `connected` sets a variable before that.
    if find_spec("ray") is None:
        pytest.skip("ray is not installed")
    plugin, marker = tmp_path / "dying.py", tmp_path / "died"
    plugin.write_text(DYING)
    dying = {"kind": "dying", "marker": str(marker), "parent": os.getpid()}
    changes = {f"train.loss.point.{name}": value for name, value in dying.items()}
    bench = bench_of(cache, toggles=TOGGLES, base=SHORT | changes, plugins=(str(plugin),))
    with workers_beside(bench, 2, ray_address="local") as others:
        deadline = time.monotonic() + 180
        while not marker.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        *_, end = run_bench(bench)
        (problem,) = others.problems()
    assert problem.startswith("Ray worker 1 failed: ")
    assert all(is_finished(cache.parent / "runs", key) for key in keys_of(bench))
    assert end.trained == 6
