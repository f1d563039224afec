"""Findings about leftovers of dead processes, and about files that block writing."""

from collections.abc import Iterator
from pathlib import Path

from frostbench.embedcache.checking.findings import Finding, described
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.own import FOLDERS, UPDATE, foreign_passing, partial_files
from frostbench.embedcache.storage.staging import committed_names, finish_update, is_committed


def left_over(cache_dir: Path) -> Iterator[Finding]:
    """Yield half-written files and updates of dead processes, and files that block writing."""
    yield from in_the_way(cache_dir)
    for path in partial_files(cache_dir):
        yield Finding(
            f"{path} is half-written: the process that wrote it has ended.",
            f"Delete it (--repair does): rm {path}",
            path.unlink,
            f"deleted the half-written {path.name}",
        )
    folder = cache_dir / UPDATE
    if is_committed(cache_dir):
        try:
            committed_names(cache_dir)
        except CacheError as error:
            yield Finding(*described(error))
            return
        yield Finding(
            f"an update was committed, but not all of its files were moved out of {folder}.",
            "Finish it (--repair does, and so does the next embed command).",
            lambda: finish_update(cache_dir),
            "finished the committed update",
        )
    elif folder.exists():
        yield Finding(
            f"an update was begun in {folder} but not committed; the cache is still the old one.",
            f"Discard it (--repair does, and so does the next embed command): rm -r {folder}",
            lambda: finish_update(cache_dir),
            "discarded the uncommitted update",
        )


def in_the_way(cache_dir: Path) -> Iterator[Finding]:
    """Yield links, and foreign files where Frostbench writes and deletes; both block repairs."""
    linked = [name for name in FOLDERS if (cache_dir / name).is_symlink()]
    for name in linked:
        yield Finding(f"{cache_dir / name} is a link instead of a folder.", "Replace it by a real folder.")
    for name in foreign_passing(cache_dir):
        if name not in linked:
            path = cache_dir / name
            yield Finding(
                f"{path} was not written by Frostbench and blocks writing the cache.",
                f"Move it elsewhere: mv {path} ELSEWHERE",
            )
