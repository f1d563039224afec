"""Outputs are complete or absent even after a kill, and the next attempt deletes leftovers."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pandas as pd
import pytest
from dying_disk import dies, runs_full

from frostbench.embedcache.outputs.leftovers import beside, clear_leftovers, is_half_written, mark_of
from frostbench.embedcache.outputs.places import OutputError, check_file, check_folder, check_new_folder
from frostbench.embedcache.outputs.tables import write_frame
from frostbench.embedcache.outputs.writing import new_file, new_folder, write_bytes, write_text

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(folder: Path) -> None:
    with new_folder(folder) as partial:
        (partial / "inner").mkdir()
        (partial / "inner/one.txt").write_bytes(b"1" * 1000)
        (partial / "two.txt").write_bytes(b"2")


def is_filled(folder: Path) -> bool:
    return (folder / "inner/one.txt").read_bytes() == b"1" * 1000 and names(folder) == ["inner", "two.txt"]


@pytest.mark.parametrize("stops", [dies, runs_full])
def test_a_file_is_the_old_one_or_the_new_one_and_a_rerun_finishes(tmp_path: Path, stops: Callable[..., bool]) -> None:
    at, out = 1, tmp_path / "out.txt"
    while True:
        out.write_bytes(b"old")
        if not stops(lambda: write_bytes(out, b"new"), at):
            break
        assert out.read_bytes() in (b"old", b"new")
        check_file(out)
        write_bytes(out, b"new")
        assert out.read_bytes() == b"new"
        assert names(tmp_path) == ["out.txt"]
        at += 1
    assert at > 5


@pytest.mark.parametrize("stops", [dies, runs_full])
def test_a_folder_is_whole_or_not_there_and_a_rerun_finishes(tmp_path: Path, stops: Callable[..., bool]) -> None:
    at, out = 1, tmp_path / "out"
    while stops(lambda: fill(out), at):
        if out.exists():
            assert is_filled(out)
            clear_leftovers(tmp_path)
        else:
            fill(out)
        assert is_filled(out)
        assert names(tmp_path) == ["out"]
        out.rename(tmp_path.with_name(f"{tmp_path.name}-{stops.__name__}-{at}"))
        at += 1
    assert is_filled(out)
    assert at > 12


def test_an_error_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_bytes(b"old")

    def fail(open_partial: Callable[[Path], AbstractContextManager[Path]], out: Path, half: str) -> None:
        with open_partial(out) as partial:
            (partial / half).write_bytes(b"half")
            raise RuntimeError

    for opened, name, half in ((new_file, "out.txt", ""), (new_folder, "out", "half")):
        with pytest.raises(RuntimeError):
            fail(opened, tmp_path / name, half)
    assert names(tmp_path) == ["out.txt"]
    assert (tmp_path / "out.txt").read_bytes() == b"old"


def test_what_is_being_written_is_no_leftover(tmp_path: Path) -> None:
    with new_file(tmp_path / "a.txt") as file, new_folder(tmp_path / "b") as folder:
        clear_leftovers(tmp_path)
        check_file(tmp_path / "a.txt")
        assert file.exists()
        assert folder.exists()
        with new_file(tmp_path / "a.txt") as other:
            assert other != file
    assert names(tmp_path) == ["a.txt", "b"]


def test_only_marked_folders_and_names_of_ours_are_leftovers(tmp_path: Path) -> None:
    mine = {"a.tmp", "a.1.tmp", "a.1-0123456.tmp", "a.1-0123456g.tmp", "b.1-01234567.tmp", "c.1-01234567.tmp.mark"}
    for name in mine - {"b.1-01234567.tmp", "c.1-01234567.tmp.mark"}:
        (tmp_path / name).write_text("mine")
    (tmp_path / "b.1-01234567.tmp").mkdir()
    (tmp_path / "b.1-01234567.tmp/letter").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/letter").write_text("mine")
    (tmp_path / "c.1-01234567.tmp").symlink_to("elsewhere")
    (tmp_path / "c.1-01234567.tmp.mark").touch()
    (tmp_path / "d.1-01234567.tmp").symlink_to("elsewhere/letter")
    clear_leftovers(tmp_path)
    left = {"a.tmp", "a.1.tmp", "a.1-0123456.tmp", "a.1-0123456g.tmp", "b.1-01234567.tmp", "d.1-01234567.tmp"}
    assert set(names(tmp_path)) == left | {"elsewhere", "c.1-01234567.tmp"}
    assert (tmp_path / "elsewhere/letter").read_text() == (tmp_path / "b.1-01234567.tmp/letter").read_text() == "mine"


def test_only_leftovers_of_the_name_go_where_one_is_given(tmp_path: Path) -> None:
    one, other = beside(tmp_path / "one.csv"), beside(tmp_path / "other.csv")
    for path in (one, other):
        assert is_half_written(path.name)
        path.write_text("half")
    check_file(tmp_path / "one.csv")
    assert names(tmp_path) == [other.name]


def test_two_threads_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    contents = [bytes([65 + i]) * 100_000 for i in range(8)]
    threads = [threading.Thread(target=write_bytes, args=(tmp_path / "x", one)) for one in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "x").read_bytes() in contents
    assert names(tmp_path) == ["x"]


def test_a_folder_that_others_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def meet() -> None:
        with new_folder(tmp_path / "out") as partial:
            (partial / "ours").touch()
            (tmp_path / "out").mkdir()
            (tmp_path / "out/theirs").touch()

    with pytest.raises(FileExistsError, match="another process has created"):
        meet()
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["theirs"]


def test_the_permissions_are_those_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "x")
        fill(tmp_path / "folder")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("far/real.txt")
    check_file(tmp_path / "link.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "far/real.txt").read_text() == "new"


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet", ".CSV"])
def test_tables_are_written_by_their_ending(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"t{ending}"
    write_frame(FRAME, out)
    read = {".csv": pd.read_csv, ".json": pd.read_json, ".parquet": pd.read_parquet}[ending.lower()]
    assert read(out)["a"].tolist() == [1, 2]
    with pytest.raises(OutputError, match=r"must end in \.csv or \.json or \.parquet, got 't\.xlsx'"):
        write_frame(FRAME, tmp_path / "t.xlsx")


def test_places_where_nothing_can_be_written_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dir.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: check_file(tmp_path / "dir.csv"), "is a folder"),
        (lambda: check_file(tmp_path / "pipe.csv"), "is not a regular file"),
        (lambda: check_file(tmp_path / "no/x.csv"), "does not exist. Create it"),
        (lambda: check_file(tmp_path / "file/x.csv", makes_folder=True), "file is not a folder"),
        (lambda: check_file(tmp_path / "x.txt", (".csv",)), r"must end in \.csv, got 'x\.txt'"),
        (lambda: check_folder(tmp_path / "file/deep"), "file is not a folder"),
    ]
    for ask, message in cases:
        with pytest.raises(OutputError, match=message):
            ask()
    with pytest.raises(FileExistsError, match=r"must be a new folder, but .*dir\.csv exists"):
        check_new_folder(tmp_path / "dir.csv")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="dangling exists"):
        check_new_folder(tmp_path / "dangling")
    real = os.open

    def refuse(path: object, flags: int, *rest: int) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    for check in (check_file, check_new_folder, check_folder):
        with pytest.raises(OutputError, match=r"cannot be written \(Permission denied\)"):
            check(tmp_path / "deep/x.csv" if check is not check_file else tmp_path / "x.csv")
    monkeypatch.undo()
    assert names(tmp_path) == ["dangling", "dir.csv", "file", "pipe.csv"]


def test_a_mark_that_a_process_holds_keeps_its_folder(tmp_path: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from frostbench.embedcache.outputs.writing import new_folder\n"
        "with new_folder(Path(sys.argv[1])) as partial:\n"
        "    (partial / 'half').touch(); print(partial, flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", hold, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        partial = Path(child.stdout.readline().strip())
        clear_leftovers(tmp_path)
        assert (partial / "half").exists()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert mark_of(partial).exists()
    clear_leftovers(tmp_path)
    assert names(tmp_path) == []
