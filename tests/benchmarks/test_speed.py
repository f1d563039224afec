import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.speed import cache, harness
from benchmarks.speed.__main__ import REGISTRY, main
from benchmarks.speed.harness import Figure, compare, figure, seconds


def fake(*ratios: float, goal: float = 1.0):
    def figures(quick: bool) -> Iterator[Figure]:
        for i, ratio in enumerate(ratios):
            yield figure(f"fake.{i}", [(1.0, ratio)], [ratio], goal=goal, unit="quick" if quick else "full")

    return figures


@pytest.mark.parametrize(("ratios", "status"), [([1.0, 2.0], 0), ([2.0, 0.99], 1), ([0.5, 2.0], 1)])
def test_a_missed_goal_is_exit_status_1_and_every_figure_is_shown(capsys, ratios: list[float], status: int) -> None:
    assert main(["fake"], {"fake": fake(*ratios)}) == status
    lines = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [one["ratio"] for one in lines] == ratios
    assert [one["ok"] for one in lines] == [ratio >= 1 for ratio in ratios]
    assert {"name", "ratio", "spread", "goal", "ok", "unit"} <= set(lines[0])
    assert lines[0]["unit"] == "full"


def test_quick_is_passed_on(capsys) -> None:
    main(["fake", "--quick"], {"fake": fake(1.0)})
    assert json.loads(capsys.readouterr().out)["unit"] == "quick"


def test_an_unknown_name_lists_those_there_are(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["nothing"])
    assert stopped.value.code == 2
    assert "cache" in capsys.readouterr().err


def test_ratio_is_the_median_of_the_paired_ratios_and_spread_their_quartile_range() -> None:
    measured = figure("x", [(1, 1), (1, 2), (1, 3), (1, 4), (1, 100)], [1, 2, 3, 4, 100], goal=3.0, unit="times")
    assert (measured.ratio, measured.spread, measured.ok) == (3.0, 2.0, True)
    assert (measured.ours, measured.peer) == (1.0, 3.0)
    assert not figure("x", [(1, 1)], [2.9], goal=3.0, unit="times").ok


def test_compare_alternates_who_goes_first_after_one_unmeasured_run() -> None:
    calls: list[str] = []
    compare("x", lambda: calls.append("ours"), lambda: calls.append("peer"), goal=0, repeats=3, unit="times")
    assert calls == ["peer", "ours", "ours", "peer", "peer", "ours", "ours", "peer"]


def test_compare_gives_more_than_1_where_ours_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "seconds", lambda action: action())
    measured = compare("x", lambda: 0.5, lambda: 2.0, goal=4, repeats=4, unit="times")
    assert (measured.ratio, measured.spread, measured.ours, measured.peer) == (4.0, 0.0, 0.5, 2.0)
    assert measured.ok


def test_seconds_measures_the_wall_clock() -> None:
    assert 0.02 <= seconds(lambda: time.sleep(0.02)) < 10


def test_the_cache_benchmark_compares_equal_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "ROWS", 300)
    monkeypatch.setattr(cache, "DIM", 1024)
    monkeypatch.setattr(cache, "SHARD_ROWS", 128)
    monkeypatch.setattr(cache, "PANDAS_ROWS", 50)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(cache, "touch", lambda x: seen.append(np.array(x)))
    names = [measured.name for measured in cache.figures(quick=True)]
    assert names == ["cache.view", "cache.copy", "cache.pandas"]
    assert len({x.shape for x in seen}) == 2
    for shape in {(300, 1024), (50, 1024)}:
        same = [x.astype(np.float32) for x in seen if x.shape == shape]
        assert len(same) >= 8
        for x in same[1:]:
            np.testing.assert_array_equal(x, same[0])


def test_touch_reads_two_values_of_a_page() -> None:
    x = np.zeros((3, 4096), np.float16)
    x[:, [0, 1024, 2048, 3072]] = 1
    assert cache.touch(x) == 12


def test_the_registry_holds_the_cache() -> None:
    assert REGISTRY["cache"] is cache.figures


@pytest.mark.slow
def test_the_command_lists_its_options() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed", "--help"], capture_output=True, text=True, check=True
    )
    assert "--quick" in done.stdout
