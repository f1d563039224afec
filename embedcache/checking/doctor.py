"""The cache doctor: everything that is wrong with a cache on disk, and the safe repairs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from frostbench.embedcache.checking.findings import Finding, described, edited_recipes, seal_findings, shard_findings
from frostbench.embedcache.checking.verify import verify_cache
from frostbench.embedcache.extraction.embed_command import embed_command
from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.splits.files import read_split
from frostbench.embedcache.storage.damage import is_imported, reading
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.layout import Layout, lay_out, shard_sizes
from frostbench.embedcache.storage.listing import read_items
from frostbench.embedcache.storage.locking import holder, is_locked, write_lock
from frostbench.embedcache.storage.mark import is_cache
from frostbench.embedcache.storage.own import FOLDERS, HOLDER, UPDATE, foreign_passing, names_a_process, partial_files
from frostbench.embedcache.storage.staging import committed_names, finish_update, is_committed
from frostbench.embedcache.storage.state import read_cache, read_manifest
from frostbench.embedcache.storage.store import FILES
from frostbench.embedcache.views.sets import list_views, views_folder


def diagnose(cache_dir: Path) -> list[Finding]:
    """Everything that is wrong with a cache; nothing is changed.

    Raises:
        CacheError: the folder is no cache.
    """
    if is_locked(cache_dir):
        return [Finding(f"{holder(cache_dir)} is writing the cache now.", "Wait for its end, then ask again.")]
    stale = cache_dir / HOLDER
    found = []
    if names_a_process(stale):
        found.append(
            Finding(
                f"{stale} is left over: {holder(cache_dir)} wrote the cache and has ended without tidying up.",
                f"Delete it (--repair does): rm {stale}",
                stale.unlink,
                f"deleted {HOLDER} of a process that has ended",
            )
        )
    return found + _diagnose(cache_dir)


def treat(cache_dir: Path) -> list[str]:
    """Do the safe repairs: left-over files, updates and locks, and damaged shards, which the embed command makes anew.

    Returns:
        What was done, a sentence for each thing.

    Raises:
        CacheError: the folder is no cache, or holds files of others where a repair deletes (nothing was touched then),
            or another process writes it.
    """
    if not is_cache(cache_dir):
        if not (cache_dir / "cache.json").exists():
            read_cache(cache_dir / "cache.json")
        return []  # what is wrong with cache.json is for a person to mend; until then nothing is known to be ours
    done = []
    if not is_locked(cache_dir) and (cache_dir / HOLDER).exists():
        done.append(f"deleted {HOLDER} of {holder(cache_dir)}, which has ended")
    with write_lock(cache_dir):
        # A repair may uncover the next finding: an update that is finished brings another listing.
        while repairs := [(one.mend, one) for one in _diagnose(cache_dir) if one.mend is not None]:
            mend, finding = repairs[0]
            if finding.done in done:
                raise CacheError(f"a repair must end what it repairs, however: {finding.what} {finding.repair}")
            mend()
            done.append(finding.done)
    return done


def _diagnose(cache_dir: Path) -> list[Finding]:
    found = [*_left_over(cache_dir)]
    try:
        cache = read_cache(cache_dir / "cache.json")
    except CacheError as error:
        if not (cache_dir / "cache.json").exists() and not found:
            raise
        return [*found, Finding(*described(error))]
    if edited := [*edited_recipes(cache_dir, cache)]:
        # Beside it every shard looks foreign, and must not be deleted.
        return found + edited
    manifest, damaged = _manifest(cache_dir)
    found += damaged
    seals = [] if manifest is None else [*seal_findings(cache_dir, manifest)]
    if any(not one.harmless for one in seals):
        # Shards that look foreign may be those of the cache.json that was exchanged, and must not be deleted.
        return found + seals
    layout, listing = _listing(cache_dir, cache, manifest)
    found += listing
    if layout is not None:
        found += shard_findings(cache_dir, cache, manifest, layout)
    if not found and manifest is None:
        found.append(_unfinished(cache_dir, cache))
    if manifest is not None and not found:
        found += _failed_checks(cache_dir)
    return found + seals + _unsealed_views(cache_dir) + _splits(cache_dir, layout) + _strangers(cache_dir)


def _left_over(cache_dir: Path) -> Iterator[Finding]:
    """Half-written files and updates of processes that died, and what lies in the way of writing."""
    yield from _in_the_way(cache_dir)
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
            f"an update was committed, but not all of its files were moved from {folder}.",
            "Finish it (--repair does, and so does the next embed command).",
            lambda: finish_update(cache_dir),
            "finished the update that was committed",
        )
    elif folder.exists():
        yield Finding(
            f"an update was begun in {folder} and not committed; the cache is the old one.",
            f"Drop it (--repair does, and so does the next embed command): rm -r {folder}",
            lambda: finish_update(cache_dir),
            "dropped the update that was not committed",
        )


def _in_the_way(cache_dir: Path) -> Iterator[Finding]:
    """Links, and files of others where we write and delete: nothing is repaired beside them."""
    linked = [name for name in FOLDERS if (cache_dir / name).is_symlink()]
    for name in linked:
        yield Finding(f"{cache_dir / name} is a link, and no folder of the cache.", "Put a real folder in its place.")
    for name in foreign_passing(cache_dir):
        if name not in linked:
            path = cache_dir / name
            yield Finding(
                f"{path} is not ours, and lies where a cache is written.",
                f"Move it elsewhere: mv {path} ELSEWHERE",
            )


def _manifest(cache_dir: Path) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The manifest, and what is wrong with it; None where there is none, or it is unreadable."""
    path = cache_dir / "manifest.json"
    if not path.exists():
        return None, []
    try:
        return read_manifest(path), []
    except CacheError as error:
        mend = None if is_imported(cache_dir) else path.unlink
        return None, [
            Finding(*described(error), mend, "deleted the manifest; the embed command counts the shards anew")
        ]


def _listing(
    cache_dir: Path, cache: dict[str, Any], manifest: dict[str, Any] | None
) -> tuple[Layout | None, list[Finding]]:
    """The items by shard, and what is wrong with them; None where they cannot be read, or are not what was embedded."""
    path = cache_dir / "items.parquet"
    try:
        with reading(path):
            items = read_items(cache_dir)
        layout = lay_out(items, shard_sizes(cache, len(items), cache_dir))
    except CacheError as error:
        return None, [_lost_listing(cache_dir, cache, described(error)[0])]
    if manifest is not None and file_sha256(path) != manifest["items_sha256"]:
        again = f"put the old file back, or run: {embed_command(cache_dir, cache, update=True)}"
        again = "put the old file back, or import the vectors again." if is_imported(cache_dir) else again
        return None, [Finding(f"{path} was edited after the images were embedded.", again[0].upper() + again[1:])]
    if len({item.id for item in items}) < len(items):
        return None, [Finding(f"{path} lists an id more than once.", "Put the old file back.")]
    return layout, []


def _lost_listing(cache_dir: Path, cache: dict[str, Any], what: str) -> Finding:
    if is_imported(cache_dir):
        return Finding(what, "Import the vectors again, into a new folder: frostbench cache import …")
    if "shard_sizes" in cache:
        return Finding(
            what, "Put the old file back, or embed into a new folder: the order of an updated cache is lost."
        )

    def mend() -> None:
        (cache_dir / "manifest.json").unlink(missing_ok=True)
        (cache_dir / "items.parquet").unlink(missing_ok=True)

    # What is gone already need not be deleted again.
    left = [name for name in ("items.parquet", "manifest.json") if (cache_dir / name).exists()]
    again = f"un: {embed_command(cache_dir, cache)}"
    if not left:
        return Finding(what, f"R{again}")
    return Finding(
        what,
        f"Delete {' and '.join(left)} (--repair does), then r{again}",
        mend,
        "deleted items.parquet, which the embed command lists anew"
        if "items.parquet" in left
        else "deleted the manifest; the embed command lists the images anew",
    )


def _unfinished(cache_dir: Path, cache: dict[str, Any]) -> Finding:
    again = f"Run: {embed_command(cache_dir, cache)}"
    again = "Import the vectors again, into a new folder." if is_imported(cache_dir) else again
    return Finding(f"{cache_dir} is unfinished: it holds no manifest.json.", again)


def _failed_checks(cache_dir: Path) -> list[Finding]:
    """What the checks of `verify_cache` find beyond this; a wrong split has a finding of its own."""
    checks = verify_cache(cache_dir).checks
    return [Finding(*described(CacheError(one.detail))) for one in checks if not one.ok and one.name != "splits"]


def _unsealed_views(cache_dir: Path) -> list[Finding]:
    """View sets whose manifests do not state all digests; what else is wrong with one is found by `verify_cache`."""
    folders = [views_folder(cache_dir, name) for name in list_views(cache_dir)]
    # A repair writes, and what lies behind a link may be of others.
    known = [(folder, _manifest(folder)[0]) for folder in folders if not folder.is_symlink()]
    found = [one for folder, manifest in known if manifest is not None for one in seal_findings(folder, manifest)]
    return [one for one in found if one.harmless]


def _strangers(cache_dir: Path) -> list[Finding]:
    """Files and folders beside those of a cache, which are nobody's business but may be lost with it."""
    partial = set(partial_files(cache_dir))
    return [
        Finding(f"{path} is no file of a cache.", f"Move it elsewhere: mv {path} ELSEWHERE", harmless=True)
        for path in sorted(cache_dir.iterdir())
        if path.name not in FILES and path not in partial
    ]


def _splits(cache_dir: Path, layout: Layout | None) -> list[Finding]:
    """Splits that are damaged, or of rows that the cache does not hold any more."""
    known = None if layout is None else {item.id for item in layout.items}
    found = []
    for path in sorted((cache_dir / "splits").glob("*.parquet")):
        try:
            ids = set(read_split(path)[0].tolist())
        except CacheError as error:
            found.append(Finding(*described(error)))
            continue
        if known is not None and not ids <= known:
            found.append(
                Finding(
                    f"{path} is an orphan: a split of {len(ids)} rows, of which {len(ids - known)} are not listed now.",
                    f"No run uses it any more. Keep it beside results that name it, or delete it: rm {path}",
                    harmless=True,
                )
            )
    return found
