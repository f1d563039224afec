"""Comparisons on test rows are counted per split."""

from frostbench.app.reveals import count_reveals, note_reveal
from frostbench.benchmarks.comparison.ab import pair
from frostbench.benchmarks.speed.fake_runs import write_fake_runs


def test_reveals_are_counted_and_incomplete_lines_ignored(tmp_path):
    found = pair(tmp_path, *([key] for key in write_fake_runs(tmp_path, rows=60, classes=4)), resamples=20)
    assert count_reveals(tmp_path, found) == 0
    assert [note_reveal(tmp_path, found) for _ in range(2)] == [1, 2]
    with (tmp_path / "reveals.jsonl").open("a") as file:
        file.write('{"time": 1, "split": "another"}\n{"time": 1, "spl')
    assert count_reveals(tmp_path, found) == 2
    assert [note_reveal(tmp_path, found) for _ in range(2)] == [3, 4]


def test_deeply_nested_lines_are_ignored(tmp_path):
    found = pair(tmp_path, *([key] for key in write_fake_runs(tmp_path, rows=60, classes=4)), resamples=20)
    (tmp_path / "reveals.jsonl").write_text("[" * 100_000 + "\n" + '{"split": ' * 50_000 + "\n")
    assert count_reveals(tmp_path, found) == 0
    assert note_reveal(tmp_path, found) == 1
