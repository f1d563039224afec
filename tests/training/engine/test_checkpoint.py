"""An interrupted stack resumes from its checkpoint and gives the same heads."""

import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
import torch
from flips import flips

from frostbench.training.data.part import Data, Part
from frostbench.training.engine.checkpoint import FORMAT, Checkpoints
from frostbench.training.engine.events import Epoch, Event, Finished, Noted
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

MLP = {"body": {"kind": "mlp", "hidden": [8]}}
TRAIN = {"schedule": {"epochs": 6, "min_steps": 0, "batch_size": 16}, "early_stop": {"patience": 3}, "ema": 0.5}


def run(lr: float, loss: dict[str, object] | None = None, **more: object) -> RunSpec:
    train = TRAIN | {"optim": {"kind": "adamw", "lr": lr}, "loss": loss or {"center": {"weight": 0.1}}}
    return RunSpec.model_validate({"head": MLP, "train": train, "order_seed": 0} | more)


@pytest.fixture
def data() -> Data:
    draw = torch.Generator().manual_seed(0)

    def part(rows: int) -> Part:
        labels = torch.arange(rows) % 3
        return Part({"x": torch.randn(rows, 6, generator=draw) + labels[:, None]}, labels)

    return Data(part(90), part(30), part(30), ("a", "b", "c"))


def crashed(events: Iterator[Event], epochs: int) -> list[Event]:
    """Return the events of a run that is killed after this many epochs."""
    seen = []
    for event in events:
        seen.append(event)
        if sum(isinstance(e, Epoch) for e in seen) == epochs:
            break
    return seen


def heads(events: list[Event]) -> dict[int, dict[str, torch.Tensor]]:
    return {e.run: e.head.head.state_dict() for e in events if isinstance(e, Finished)}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("rates", [(0.01,), (0.01, 0.02, 0.05)])
@pytest.mark.parametrize("second", [{"kind": "none"}, {"kind": "crt", "epochs": 3}])
def test_it_ends_with_the_same_heads_and_curves(
    tmp_path: Path, data: Data, rates: tuple[float, ...], second: dict[str, object]
) -> None:
    runs = [run(lr, seed=i, second=second) for i, lr in enumerate(rates)]
    full = list(fit(runs, data))
    keep = Checkpoints(tmp_path, seconds=0)
    crashed(fit(runs, data, checkpoints=keep), epochs=3 * len(runs) + 1)
    assert list(tmp_path.glob("*.pt"))
    again = list(fit(runs, data, checkpoints=keep))
    assert heads(again).keys() == heads(full).keys()
    assert all(same(heads(again)[i], heads(full)[i]) for i in heads(full))
    losses = lambda events, i: [(e.epoch, e.loss) for e in events if isinstance(e, Epoch) and e.run == i]  # noqa: E731
    assert all(losses(again, i) == losses(full, i) for i in range(len(runs)))
    assert not list(tmp_path.iterdir())


REMEMBERING = {
    "gate, norms, history and temperatures": {
        "fedlas": {"alpha": 0.1, "gate_rate": 2.0},
        "crl": {"weight": 0.5},
        "vace": {"strength": 0.5, "scatter": "own_logit_ema"},
    },
    "powers": {"point": {"kind": "adafocal", "bins": 3}},
}


@pytest.mark.parametrize("rates", [(0.01,), (0.01, 0.02)])
@pytest.mark.parametrize("loss", REMEMBERING.values(), ids=REMEMBERING)
def test_the_state_of_a_loss_is_restored_too(
    tmp_path: Path, data: Data, rates: tuple[float, ...], loss: dict[str, object]
) -> None:
    runs = [run(lr, loss, seed=i) for i, lr in enumerate(rates)]
    full = list(fit(runs, data))
    keep = Checkpoints(tmp_path, seconds=0)
    crashed(fit(runs, data, checkpoints=keep), epochs=3 * len(runs) + 1)
    assert list(tmp_path.glob("*.pt"))
    again = list(fit(runs, data, checkpoints=keep))
    assert all(same(heads(again)[i], heads(full)[i]) for i in heads(full))
    epochs = lambda events: [(e.run, e.epoch, e.loss, e.logs) for e in events if isinstance(e, Epoch)]  # noqa: E731
    assert sorted(epochs(again), key=lambda e: e[:2]) == sorted(epochs(full), key=lambda e: e[:2])


def test_it_resumes_without_heads_that_have_finished_since(tmp_path: Path, data: Data) -> None:
    runs = [run(lr, seed=i) for i, lr in enumerate((0.01, 0.02, 0.05))]
    full = list(fit(runs, data))
    keep = Checkpoints(tmp_path, seconds=0)
    crashed(fit(runs, data, checkpoints=keep), epochs=7)
    again = list(fit([runs[2], runs[0]], data, checkpoints=keep))
    assert [e.epoch for e in again if isinstance(e, Epoch) and e.run == 0][:2] == [1, 2]
    assert same(heads(again)[0], heads(full)[2])
    assert same(heads(again)[1], heads(full)[0])


def test_a_stop_keeps_the_checkpoint(tmp_path: Path, data: Data) -> None:
    keep = Checkpoints(tmp_path, seconds=0)
    stops = iter([False, False, True, True, True])
    list(fit([run(0.01)], data, stop=lambda: next(stops), checkpoints=keep))
    again = list(fit([run(0.01)], data, checkpoints=keep))
    assert same(heads(again)[0], heads(list(fit([run(0.01)], data)))[0])


def test_a_checkpoint_of_other_runs_is_ignored(tmp_path: Path, data: Data) -> None:
    keep = Checkpoints(tmp_path, seconds=0)
    crashed(fit([run(0.01)], data, checkpoints=keep), epochs=3)
    again = list(fit([run(0.03)], data, checkpoints=keep))
    assert same(heads(again)[0], heads(list(fit([run(0.03)], data)))[0])


def test_nothing_is_written_before_its_time(tmp_path: Path, data: Data) -> None:
    list(fit([run(0.01)], data, checkpoints=Checkpoints(tmp_path / "none", seconds=3600)))
    assert not (tmp_path / "none").exists()


def test_a_head_resumes_alone_from_the_checkpoint_of_a_stack(tmp_path: Path, data: Data) -> None:
    runs = [run(lr, seed=i) for i, lr in enumerate((0.01, 0.02))]
    full = list(fit(runs, data))
    keep = Checkpoints(tmp_path, seconds=0)
    crashed(fit(runs, data, checkpoints=keep), epochs=5)
    again = list(fit([runs[1]], data, checkpoints=keep))
    assert [e.epoch for e in again if isinstance(e, Epoch)][:2] == [1, 2]
    for name, value in heads(again)[0].items():
        torch.testing.assert_close(value, heads(full)[1][name], rtol=0, atol=1e-5)


def notes(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Noted)]


@pytest.mark.parametrize("length", [0, 1, 40, 92, 500, -1])
def test_a_truncated_file_is_ignored_with_a_note(tmp_path: Path, data: Data, length: int) -> None:
    full, keep = list(fit([run(0.01)], data)), Checkpoints(tmp_path, seconds=0)
    crashed(fit([run(0.01)], data, checkpoints=keep), epochs=3)
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:length])
    again = list(fit([run(0.01)], data, checkpoints=keep))
    [note] = notes(again)
    assert f"checkpoint {file} is truncated or damaged: it is ignored and training starts" in note
    assert same(heads(again)[0], heads(full)[0])
    assert not list(tmp_path.iterdir())


def test_any_flipped_bit_is_noticed(tmp_path: Path, data: Data) -> None:
    keep = Checkpoints(tmp_path, seconds=3600)
    crashed(fit([run(0.01)], data, checkpoints=Checkpoints(tmp_path, seconds=0)), epochs=3)
    [file] = tmp_path.iterdir()
    for _ in flips(file, 30):
        first = crashed(fit([run(0.01)], data, checkpoints=keep), epochs=1)
        assert len(notes(first)) == 1
    assert notes(crashed(fit([run(0.01)], data, checkpoints=keep), epochs=1)) == []


def test_a_file_of_an_earlier_format_is_ignored(tmp_path: Path, data: Data) -> None:
    keep = Checkpoints(tmp_path, seconds=0)
    crashed(fit([run(0.01)], data, checkpoints=keep), epochs=3)
    [file] = tmp_path.iterdir()
    older = file.read_bytes().replace(f"checkpoint {FORMAT}\n".encode(), f"checkpoint {FORMAT - 1}\n".encode(), 1)
    file.write_bytes(older)
    [note] = notes(list(fit([run(0.01)], data, checkpoints=keep)))
    assert "was written by another version" in note
    torch.save({"format": 3, "heads": []}, file)
    [note] = notes(list(fit([run(0.01)], data, checkpoints=keep)))
    assert "was written by another version" in note


def test_two_processes_on_one_stack_do_not_disturb_each_other(tmp_path: Path, data: Data) -> None:
    keep, full = Checkpoints(tmp_path, seconds=0), list(fit([run(0.01)], data))
    both = [fit([run(0.01)], data, checkpoints=keep) for _ in range(2)]
    seen: list[list[Event]] = [[], []]
    for pair in zip_longest(*both):
        for events, event in zip(seen, pair, strict=True):
            events += [event] if event is not None else []
    assert all(same(heads(events)[0], heads(full)[0]) for events in seen)


def test_what_killed_processes_left_is_removed_after_a_while(tmp_path: Path, data: Data) -> None:
    keep = Checkpoints(tmp_path, seconds=0)
    crashed(fit([run(0.01)], data, checkpoints=keep), epochs=3)
    [file] = tmp_path.iterdir()
    old, new = (tmp_path / f"{file.stem}.{name}.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    list(fit([run(0.01)], data, checkpoints=keep))
    assert list(tmp_path.iterdir()) == [new]


def test_a_full_disk_leaves_the_existing_checkpoint(tmp_path: Path, data: Data, monkeypatch) -> None:
    keep = Checkpoints(tmp_path, seconds=0)
    crashed(fit([run(0.01)], data, checkpoints=keep), epochs=3)
    [file] = tmp_path.iterdir()
    before = file.read_bytes()

    def no_space(path: Path, content: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("frostbench.training.engine.checkpoint._write", no_space)
    with pytest.raises(OSError, match="No space left"):
        list(fit([run(0.01)], data, checkpoints=keep))
    assert [(path, path.read_bytes()) for path in tmp_path.iterdir()] == [(file, before)]
