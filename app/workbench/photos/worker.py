"""The process that embeds: `python -m frostbench.app.workbench.photos.worker FOLDER`, in the folder of the page.

It outlives the server. A stop is asked for by the file `stop`; whatever ends it, finished shards are kept, and the same
request continues after them.
"""

import faulthandler
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from frostbench.app.streams import accept_all_characters
from frostbench.app.workbench.photos.records import (
    MOST_BAD,
    UNFINISHED,
    EmbeddingRequest,
    EmbeddingStatus,
    read_request,
    rows_per_shard,
    write,
)

PERIOD_SECONDS = 0.4
"""Shortest time between two notes of progress."""
POLL_SECONDS = 0.2
GRACE_SECONDS = 5.0
"""Time that loading, or the current batch, may take after a stop was asked for."""


class Progress:
    """The status of the embedding; written by two threads, and no longer changed once it has ended."""

    def __init__(self, folder: Path) -> None:
        self.status = EmbeddingStatus()
        self._folder = folder
        self._lock = threading.Lock()
        self._written = 0.0

    def show(self, *, soon: bool = False, **changes: Any) -> None:
        """Change the status and write it; with `soon`, only if the last time is long enough ago."""
        with self._lock:
            if self.status.state not in UNFINISHED:
                return
            self.status = self.status.model_copy(update=changes)
            now = time.monotonic()
            if not soon or now - self._written >= PERIOD_SECONDS:
                write(self._folder, self.status)
                self._written = now


def main(folder: Path) -> int:
    """Embed what is requested in a folder; return the exit status."""
    request, progress = read_request(folder), Progress(folder)
    threading.Thread(target=_watch, args=(folder, progress), daemon=True).start()
    try:
        if request is None:
            raise ValueError("request.json of the embedding is missing or damaged. Start again with the photos.")
        embed(request, progress, lambda: (folder / "stop").exists())
    # Whatever a backbone or the system raises is told on the page.
    except Exception as error:
        traceback.print_exc()
        progress.show(state="failed", error=str(error) or type(error).__name__)
        return 1
    return 0


def embed(request: EmbeddingRequest, progress: Progress, stop: Any) -> None:
    """List, load and embed; write the progress.

    Raises:
        ValueError: the images cannot be listed, the backbone cannot be loaded, or the cache is another one.
    """
    progress.show(state="listing")
    # Importing these takes seconds.
    from frostbench.app.actions.embedding import check_disk
    from frostbench.app.actions.loading import load_backbones
    from frostbench.app.workbench.photos.sources import list_photos
    from frostbench.embedcache.extraction.backbone_group import backbone_group
    from frostbench.embedcache.extraction.extract import extract
    from frostbench.embedcache.extraction.opening import check_cache_folder

    root, cache = Path.cwd(), Path(request.cache)
    source, listing = list_photos(root, request.folder, request.group_regex)
    check_cache_folder(cache, listing)
    total = len(listing.items)
    progress.show(state="loading", source=source.as_posix(), total=total)
    members = backbone_group(load_backbones([request.backbone], (), device=request.device))
    check_disk(members, total, cache, agreed=True)
    _follow(extract(listing, members, cache, shard_rows=rows_per_shard(total), stop=stop), cache, progress)


def _follow(events: Any, cache: Path, progress: Progress) -> None:
    from frostbench.embedcache.extraction.events import BatchDone, Finished, ShardDone, Started, Stopped

    first, began, end = 0, time.perf_counter(), dict[str, Any]()
    for event in events:
        if isinstance(event, Started):
            first, began = event.n_done, time.perf_counter()
            progress.show(state="embedding", done=first, kept=first, notes=event.warnings)
        elif isinstance(event, BatchDone):
            rate = (event.n_done - first) / max(1e-6, time.perf_counter() - began)
            progress.show(soon=True, done=event.n_done, rate=round(rate, 2))
        elif isinstance(event, ShardDone):
            progress.show(done=event.n_done, kept=event.n_done)
        elif isinstance(event, Stopped):
            end = {"state": "stopped", "done": event.n_done, "kept": event.n_done}
        elif isinstance(event, Finished):
            end = _end_of(event, cache, progress.status.notes)
    # Only now is the cache no longer locked, so that a page that reads this can resume at once.
    progress.show(**end)


def _end_of(event: Any, cache: Path, notes: tuple[str, ...]) -> dict[str, Any]:
    from frostbench.embedcache.storage.state import read_quarantine

    bad = tuple((str(row["id"]), str(row["reason"])) for row in read_quarantine(cache)[:MOST_BAD])
    error = "None of the photos could be read. Repair the files, then resume." if not event.n_ok else ""
    return {
        "state": "failed" if error else "done",
        "error": error,
        "done": event.n_listed,
        "kept": event.n_listed,
        "notes": (*notes, *event.remarks.sentences()),
        "n_bad": event.n_bad,
        "bad": bad,
    }


def _watch(folder: Path, progress: Progress) -> None:
    """End the process if it does not stop by itself soon after it was asked to."""
    while not (folder / "stop").exists():
        time.sleep(POLL_SECONDS)
    until = time.monotonic() + GRACE_SECONDS
    while progress.status.state in UNFINISHED and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    if progress.status.state in UNFINISHED:
        progress.show(state="stopped", done=progress.status.kept)
        os._exit(0)


if __name__ == "__main__":
    faulthandler.enable()
    accept_all_characters()
    sys.exit(main(Path(sys.argv[1])))
