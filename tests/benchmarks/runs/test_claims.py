"""Several processes on one store: who trains which run."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest
import yaml
from short_benches import bench_of, kinds

import frostbench.benchmarks.runs.train_missing as train_missing
from frostbench.benchmarks.runs.claims import Claims
from frostbench.benchmarks.runs.events import BenchDone, RunDone, RunFailed, RunsElsewhere, RunSkipped
from frostbench.benchmarks.runs.failures import mark_failed
from frostbench.benchmarks.runs.runner import bench_rows, run_bench


def hold(store, key, *, host="elsewhere", pid=1, started=0.0, age=0.0):
    """Write the claim of another process."""
    path = store / "claims" / f"{key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"host": host, "pid": pid, "started": started}))
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def ended_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_claim_is_held_until_it_is_released(tmp_path):
    with Claims(tmp_path) as claims:
        assert claims.take(["a", "b"]) == ["a", "b"]
        assert json.loads((tmp_path / "claims" / "a.json").read_text())["pid"] == os.getpid()
        claims.release(["a"])
        assert not (tmp_path / "claims" / "a.json").exists()
    assert [path.name for path in (tmp_path / "claims").iterdir()] == [".lock"]


def test_claims_of_others_are_respected_and_named(tmp_path):
    path = hold(tmp_path, "a", pid=7)
    with Claims(tmp_path) as claims:
        assert claims.take(["a", "b"]) == ["b"]
        me = f"process {os.getpid()} on {socket.gethostname()}"
        assert claims.holders(["a", "b", "c"]) == ["process 7 on elsewhere", me]
        claims.release(["a"])
        assert path.exists()
    assert path.exists()


@pytest.mark.parametrize(
    "other",
    [
        {"age": 61},
        {"host": socket.gethostname(), "pid": -1},
        {"host": socket.gethostname(), "pid": os.getppid(), "started": 5.0},
    ],
    ids=["not renewed", "ended", "another process has its pid"],
)
def test_a_claim_whose_process_is_gone_is_free(tmp_path, other):
    pid = ended_pid() if other.get("pid") == -1 else other.get("pid", 1)
    hold(tmp_path, "a", **other | {"pid": pid})
    with Claims(tmp_path) as claims:
        assert claims.take(["a"]) == ["a"]


def test_a_living_process_of_this_machine_keeps_its_claim(tmp_path):
    import psutil

    parent = psutil.Process(os.getppid())
    hold(tmp_path, "a", host=socket.gethostname(), pid=parent.pid, started=parent.create_time())
    with Claims(tmp_path) as claims:
        assert claims.take(["a"]) == []


def test_a_damaged_claim_is_free(tmp_path):
    hold(tmp_path, "a").write_text("{")
    with Claims(tmp_path) as claims:
        assert claims.take(["a"]) == ["a"]


def test_claims_that_an_ended_process_left_are_deleted_when_a_bench_starts(cache):
    store = cache.parent / "runs"
    list(run_bench(bench_of(cache)))
    left = [hold(store, "ended", host=socket.gethostname(), pid=ended_pid()), hold(store, "old", age=61)]
    kept = hold(store, "held", age=5)
    list(run_bench(bench_of(cache)))
    assert not any(path.exists() for path in left)
    assert kept.exists()


def test_claims_are_renewed_while_they_are_held(tmp_path):
    with Claims(tmp_path, lease_seconds=0.3) as claims:
        claims.take(["a"])
        path = tmp_path / "claims" / "a.json"
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 20
        while path.stat().st_mtime < claims.now() - 5:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def quick_polls(monkeypatch):
    monkeypatch.setattr(train_missing, "POLL_SECONDS", 0.01)


def test_runs_of_another_process_are_waited_for_and_found(cache, tmp_path, quick_polls):
    bench, store = bench_of(cache), cache.parent / "runs"
    key, other = bench_rows(bench)[0].rows["baseline"]
    elsewhere = bench_of(cache, store=str(tmp_path / "elsewhere"))
    list(run_bench(elsewhere))
    claim = hold(store, key, pid=7)
    events = []
    for event in run_bench(bench):
        events.append(event)
        if isinstance(event, RunsElsewhere):
            shutil.copytree(tmp_path / "elsewhere" / "runs" / key, store / "runs" / key)
            claim.unlink()
    assert [event.record.key for event in kinds(events, RunDone)] == [other]
    assert kinds(events, RunsElsewhere) == [RunsElsewhere(str(cache), 1, ("process 7 on elsewhere",))]
    assert kinds(events, RunSkipped) == [RunSkipped(str(cache), "baseline", 0, key)]
    assert (events[-1].trained, events[-1].skipped) == (1, 1)


def test_runs_of_a_process_that_ends_are_trained_here(cache, quick_polls):
    bench, store = bench_of(cache), cache.parent / "runs"
    key = bench_rows(bench)[0].rows["baseline"][0]
    claim, events = hold(store, key), []
    for event in run_bench(bench):
        events.append(event)
        if isinstance(event, RunsElsewhere):
            os.utime(claim, (time.time() - 61, time.time() - 61))
    assert [event.record.seed for event in kinds(events, RunDone)] == [1, 0]
    assert events[-1].trained == 2


def test_a_run_that_fails_elsewhere_is_reported_and_not_repeated(cache, quick_polls):
    bench, store = bench_of(cache), cache.parent / "runs"
    key = bench_rows(bench)[0].rows["baseline"][0]
    mark_failed(store, key, "an old failure")
    os.utime(store / "failed" / f"{key}.json", (0, 0))
    claim, events = hold(store, key), []
    for event in run_bench(bench):
        events.append(event)
        if isinstance(event, RunsElsewhere):
            mark_failed(store, key, "it diverged")
            claim.unlink()
    assert kinds(events, RunFailed) == [RunFailed(str(cache), "baseline", 0, "it diverged")]
    assert events[-1].trained == 1


def test_a_stopped_bench_gives_its_claims_up(cache):
    bench, store = bench_of(cache), cache.parent / "runs"
    asked = iter([False, True])
    list(run_bench(bench, stop=lambda: next(asked, True)))
    events = run_bench(bench)
    next(event for event in events if type(event).__name__ == "RunEpoch")
    assert len(list((store / "claims").glob("*.json"))) == 1
    events.close()
    assert list((store / "claims").glob("*.json")) == []


@pytest.fixture
def bench_file(cache, tmp_path):
    toggles = {"lda": {"preset": "lda"}, "ridge": {"preset": "ridge"}, "ncm": {"preset": "ncm"}}
    fields = bench_of(cache, toggles=toggles, seeds=(0, 1, 2)).model_dump(mode="json")
    path = tmp_path / "bench.yaml"
    path.write_text(yaml.safe_dump(fields))
    return path


def start(bench_file, output=subprocess.DEVNULL):
    words = [sys.executable, "-m", "frostbench", "bench", "run", str(bench_file)]
    return subprocess.Popen(words, stdout=output, stderr=output, text=True)


@pytest.mark.slow
def test_two_processes_train_every_run_once(bench_file):
    processes = [start(bench_file, subprocess.PIPE) for _ in range(2)]
    ends = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ends
    trained = [int(out.split(": ")[-1].split(" run")[0]) for out, _ in ends]
    assert sum(trained) == 12


@pytest.mark.slow
def test_a_bench_that_is_killed_ends_with_the_store_of_one_that_was_not(cache, bench_file, tmp_path):
    whole = yaml.safe_load(bench_file.read_text()) | {"store": str(tmp_path / "whole")}
    (tmp_path / "whole.yaml").write_text(yaml.safe_dump(whole))
    assert start(tmp_path / "whole.yaml").wait(300) == 0
    store = cache.parent / "runs"
    for count in (1, 4, 9):
        process = start(bench_file)
        while len(list(store.glob("runs/*/record.json"))) < count:
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()
        process.wait()
    assert start(bench_file).wait(300) == 0
    for folder in (store, tmp_path / "whole"):
        assert [path.name for path in (folder / "claims").iterdir()] == [".lock"]
    names = [sorted(str(p.relative_to(f)) for p in f.glob("runs/*/*")) for f in (store, tmp_path / "whole")]
    assert names[0] == names[1]
    assert len(list(store.glob("runs/*/record.json"))) == 12
    for path in store.glob("runs/*/outcomes.parquet"):
        assert path.read_bytes() == (tmp_path / "whole" / path.relative_to(store)).read_bytes()
    for path in store.glob("runs/*/record.json"):
        mine, other = (json.loads(p.read_text()) for p in (path, tmp_path / "whole" / path.relative_to(store)))
        assert mine["evaluations"] == other["evaluations"]


def test_the_end_of_a_bench_is_the_last_event(cache):
    assert isinstance(list(run_bench(bench_of(cache)))[-1], BenchDone)
