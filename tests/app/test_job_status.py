"""The status of a job after each event of its bench."""

from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.records import Request, Status
from frostbench.app.jobs.training import METRICS, after, final_state, train
from frostbench.benchmarks.runs.events import BenchDone, RunEpoch, RunFailed, RunFold


def test_the_status_names_progress_and_failed_seeds(tmp_path):
    status = after(Status(seeds=2, seed_number=1), RunFold("c", "plain", 0, 2, 7), (0, 1), 0.0)
    assert status.message == "Cross-validation: fit 2 of 7."
    failed = RunFailed("c", "plain", 0, "it diverged.")
    status = after(status, failed, (0, 1), 0.0)
    assert (status.seed_number, status.warnings) == (2, ("seed 0 failed: it diverged.",))
    end = BenchDone("bench", 1, 0, tmp_path, (), (failed,))
    assert final_state(end) == ("done", "0 found, 1 trained; seed 0 failed: it diverged.")
    nothing = BenchDone("bench", 0, 0, tmp_path, (), (failed,))
    assert final_state(nothing) == ("failed", "seed 0 failed: it diverged.")


def test_of_seeds_that_train_together_one_is_displayed(tmp_path, monkeypatch):
    def epoch(seed, number, value, best):
        return RunEpoch("c", "plain", seed, number, 9, 1.0, dict.fromkeys(METRICS, value), best)

    events = [epoch(0, 1, 0.3, 1), epoch(1, 1, 0.9, 1), epoch(0, 2, 0.4, 2), epoch(1, 2, 0.1, 1)]
    seen = []
    monkeypatch.setattr("frostbench.app.jobs.training.run_bench", lambda *_, **__: iter(events))
    progress = Progress(tmp_path)
    real = progress.show
    monkeypatch.setattr(progress, "show", lambda status, soon=False: (seen.append(status), real(status, soon=soon)))
    bench = {"caches": ["c"], "preset": "plain", "seeds": [0, 1]}
    train(Request("A", "", bench, 1, "cpu", 0.0), progress)
    # Both have an epoch that would be kept; the displayed values are those of the first.
    assert [(status.epoch, status.best, status.best_epoch, status.holds) for status in seen] == [
        (1, 0.3, 1, 1),
        (1, 0.3, 1, 2),
        (2, 0.4, 2, 2),
    ]
    assert [line.split(",")[0] for line in (tmp_path / "epochs.jsonl").read_text().splitlines()] == [
        '{"seed": 0',
        '{"seed": 1',
        '{"seed": 0',
        '{"seed": 1',
    ]


def test_a_job_that_was_asked_to_stop_counts_as_saving_until_its_end(tmp_path, monkeypatch):
    """Without anything to save, a worker is killed some seconds after the request, perhaps before it wrote its end."""

    def events():
        yield RunEpoch("c", "plain", 0, 1, 9, 1.0, dict.fromkeys(METRICS, 0.3), 1)
        yield RunFailed("c", "plain", 0, "it diverged.")
        holds.append(progress.status.holds)
        yield RunEpoch("c", "plain", 1, 1, 9, 1.0, dict.fromkeys(METRICS, 0.3), 1)
        (tmp_path / "cancel").touch()
        yield RunFailed("c", "plain", 1, "it diverged.")
        holds.append(progress.status.holds)

    holds = []
    monkeypatch.setattr("frostbench.app.jobs.training.run_bench", lambda *_, **__: events())
    progress = Progress(tmp_path)
    train(Request("A", "", {"caches": ["c"], "preset": "plain", "seeds": [0, 1]}, 1, "cpu", 0.0), progress)
    assert holds == [0, 1]
