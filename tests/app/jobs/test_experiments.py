"""Jobs of experiments: each change alone and all together, and searches."""

import pytest
from queued_jobs import ENDLESS, SHORT, bench_of, is_in, made_by_hand, wait_for

from frostbench.app.jobs import JobError, cancel, read, share_done, submit, submit_found
from frostbench.app.jobs.experiments import Count, train_experiment
from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.records import Request
from frostbench.benchmarks.runs.events import RunEpoch, RunFailed, RunSkipped
from frostbench.benchmarks.runs.store import read_record

LR = "train.optim.lr"


def changes_of(cache, base=SHORT, seeds=(0, 1)):
    return bench_of(cache, base, seeds) | {
        "toggles": {"fast": {LR: 0.05}, "all": {LR: 0.05, "head.preprocess.std": True}}
    }


def search_of(cache, base=SHORT, seeds=(0,)):
    return bench_of(cache, base, seeds) | {"tune": {"plain": {LR: [1e-6, 1e-5, 0.05]}}}


def trained(tmp_path, kind, bench, rounds=0):
    """Train an experiment in this process; return its state, its message and its last status."""
    folder = tmp_path / "results" / "jobs" / "one"
    folder.mkdir(parents=True)
    progress = Progress(folder)
    request = Request(kind, "", bench | {"store": str(tmp_path / "results")}, 1, "cpu", 0.0, rounds=rounds)
    return *train_experiment(request, progress), progress.status


@pytest.mark.slow
def test_each_change_is_trained_in_one_job_and_found_again(tmp_path, cache):
    state, message, status = trained(tmp_path, "changes", changes_of(cache))
    assert (state, message) == ("done", "0 found, 6 trained")
    assert (status.seeds, status.trained, status.found, status.share) == (6, 6, 0, 1.0)
    specs = [read_record(tmp_path / "results", key).full_spec for key in status.keys.values()]
    assert [(spec["seed"], spec["train"]["optim"]["lr"], spec["head"]["preprocess"]["std"]) for spec in specs[2:]] == [
        (0, 0.05, False),
        (1, 0.05, False),
        (0, 0.05, True),
        (1, 0.05, True),
    ]
    (tmp_path / "results" / "jobs" / "one").rename(tmp_path / "results" / "jobs" / "before")
    assert trained(tmp_path, "changes", changes_of(cache))[1] == "6 found, 0 trained"


@pytest.mark.slow
def test_a_search_states_its_best_setting_and_the_edge(tmp_path, cache):
    state, message, status = trained(tmp_path, "search", search_of(cache))
    assert state == "done"
    assert message.startswith("0 found, 3 trained. Best on the validation images: Learning rate ")
    assert status.chosen["preset"] == "plain"
    assert status.chosen["base"][LR] in (1e-6, 1e-5, 0.05)
    assert status.chosen["base"] | SHORT == status.chosen["base"]


@pytest.mark.slow
def test_halving_trains_a_third_of_the_settings_in_full(tmp_path, cache):
    state, _, status = trained(tmp_path, "search", search_of(cache), rounds=2)
    assert (state, status.seeds, status.trained, len(status.keys)) == ("done", 4, 4, 1)
    record = read_record(tmp_path / "results", status.keys[0])
    assert record.full_spec["train"]["schedule"]["epochs"] == 4


@pytest.mark.slow
def test_an_experiment_is_cancelled_and_its_finished_runs_are_kept(store, cache):
    bench = changes_of(cache, seeds=(0,))
    bench["toggles"]["endless"] = ENDLESS
    job_id = submit(store, "changes", bench)
    job = wait_for(store, job_id, lambda job: job.trained == 3 and share_done(job) > 75)
    assert 75 < share_done(job) < 100
    assert (job.seeds, job.found) == (4, 0)
    cancel(store, job_id)
    ended = wait_for(store, job_id, is_in("cancelled"))
    assert ended.message.endswith("3 of 4 runs were finished and kept.")
    assert len(list((store / "runs").glob("*/record.json"))) == 3


def test_the_same_experiment_is_not_added_twice_but_another_way_of_searching_is(store, cache, started):
    first = submit(store, "search", search_of(cache))
    assert submit(store, "search", search_of(cache)) == first
    assert submit(store, "search", search_of(cache), rounds=2) != first
    assert read(store, first).rounds == 0


def test_an_experiment_with_an_unknown_plugin_is_refused(store, cache):
    bench = search_of(cache) | {
        "tune": {"plain": [{"train.loss.point.kind": "external"}, {"train.loss.point.file": "a.py"}]}
    }
    with pytest.raises(JobError, match=r"A job may only run plugins .*a\.py"):
        submit(store, "search", bench)
    assert not list(store.glob("jobs/2*"))


def test_a_bench_on_several_caches_is_refused(tmp_path, cache):
    with pytest.raises(ValueError, match="An experiment needs one cache, got 2"):
        trained(tmp_path, "changes", changes_of(cache) | {"caches": [str(cache), str(tmp_path)]})


def test_found_runs_are_a_finished_job(store, cache, started):
    job = read(store, submit_found(store, "changes", changes_of(cache), {0: "a", 1: "b"}))
    assert (job.state, job.found, share_done(job), job.keys) == ("done", 2, 100, {0: "a", 1: "b"})
    assert started == []


def test_progress_of_another_store_is_shown_within_bounds(store):
    folder = made_by_hand(store, state="done", share=7.5)
    assert share_done(read(store, folder.name)) == 100


def test_runs_are_counted_by_their_epochs():
    count = Count(4)
    count.add(RunSkipped("c", "a", 0, "k"))
    count.add(RunEpoch("c", "a", 1, 1, 4, 0.0, {}, 1))
    assert (count.share, count.pace) == (0.3125, None)
    count.add(RunEpoch("c", "b", 0, 2, 4, 0.0, {}, 1))
    assert count.share == pytest.approx((1 + 0.25 + 0.5) / 4)
    assert count.pace > 0
    count.add(RunFailed("c", "a", 1, "why"))
    assert (count.ended, count.share) == (2, pytest.approx(2.5 / 4))
