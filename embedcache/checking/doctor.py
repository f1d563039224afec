"""The cache doctor: diagnosis of a cache on disk, and the safe repairs."""

from pathlib import Path
from typing import Any

from frostbench.embedcache.checking.findings import Finding, described, edited_recipes, seal_findings, shard_findings
from frostbench.embedcache.checking.leftovers import left_over
from frostbench.embedcache.checking.verify import verify_cache
from frostbench.embedcache.counting import things
from frostbench.embedcache.extraction.embed_command import run_again
from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.splits.files import read_split
from frostbench.embedcache.storage.damage import is_imported, reading
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.layout import Layout, lay_out, shard_sizes
from frostbench.embedcache.storage.listing import read_items
from frostbench.embedcache.storage.locking import holder, is_locked, write_lock, writers
from frostbench.embedcache.storage.mark import is_cache
from frostbench.embedcache.storage.own import HOLDER, names_a_process, partial_files
from frostbench.embedcache.storage.state import read_cache, read_manifest
from frostbench.embedcache.storage.store import FILES
from frostbench.embedcache.views.sets import list_views, views_folder


def diagnose(cache_dir: Path) -> list[Finding]:
    """Return everything that is wrong with a cache, without changing anything.

    Raises:
        CacheError: the folder is not a cache.
    """
    if is_locked(cache_dir):
        return [Finding(f"{writers(cache_dir)} the cache now.", "Wait until it ends, then run this again.")]
    stale = cache_dir / HOLDER
    found = []
    if names_a_process(stale):
        found.append(
            Finding(
                f"{stale} is left over: {holder(cache_dir)} was writing the cache and ended without removing it.",
                f"Delete it (--repair does): rm {stale}",
                stale.unlink,
                f"deleted {HOLDER} of a process that has ended",
            )
        )
    return found + _diagnose(cache_dir)


def treat(cache_dir: Path) -> list[str]:
    """Make the safe repairs: delete leftover files, finish updates, and delete damaged files that embedding recreates.

    Returns:
        One sentence per repair.

    Raises:
        CacheError: the folder is not a cache, contains foreign files where a repair deletes (nothing was touched then),
            or is being written by another process.
    """
    if not is_cache(cache_dir):
        if not (cache_dir / "cache.json").exists():
            read_cache(cache_dir / "cache.json")
        return []  # a damaged cache.json needs a person; until then no file is known to be Frostbench's
    done = []
    if not is_locked(cache_dir) and (cache_dir / HOLDER).exists():
        done.append(f"deleted {HOLDER} of {holder(cache_dir)}, which has ended")
    with write_lock(cache_dir):
        # A repair may reveal the next finding: a finished update brings another listing.
        while repairs := [(one.mend, one) for one in _diagnose(cache_dir) if one.mend is not None]:
            mend, finding = repairs[0]
            if finding.done in done:
                raise CacheError(
                    f"The repair was made, but the problem remains: {finding.what} Do it by hand: {finding.repair}"
                )
            mend()
            done.append(finding.done)
    return done


def _diagnose(cache_dir: Path) -> list[Finding]:
    found = [*left_over(cache_dir)]
    try:
        cache = read_cache(cache_dir / "cache.json")
    except CacheError as error:
        if not (cache_dir / "cache.json").exists() and not found:
            raise
        return [*found, Finding(*described(error))]
    if edited := [*edited_recipes(cache_dir, cache)]:
        # With an edited recipe every shard looks foreign, but none may be deleted.
        return found + edited
    manifest, damaged = _manifest(cache_dir)
    found += damaged
    seals = [] if manifest is None else [*seal_findings(cache_dir, manifest)]
    if any(not one.harmless for one in seals):
        # Shards that look foreign may belong to the original cache.json, so they must not be deleted.
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


def _manifest(cache_dir: Path) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Return the manifest (None if it is missing or unreadable) and its problems."""
    path = cache_dir / "manifest.json"
    if not path.exists():
        return None, []
    try:
        return read_manifest(path), []
    except CacheError as error:
        mend = None if is_imported(cache_dir) else path.unlink
        return None, [Finding(*described(error), mend, "deleted the manifest; the embed command recreates it")]


def _listing(
    cache_dir: Path, cache: dict[str, Any], manifest: dict[str, Any] | None
) -> tuple[Layout | None, list[Finding]]:
    """Return the items by shard (None if they are unreadable or not those embedded) and their problems."""
    path = cache_dir / "items.parquet"
    try:
        with reading(path):
            items = read_items(cache_dir)
        layout = lay_out(items, shard_sizes(cache, len(items), cache_dir))
    except CacheError as error:
        return None, [_lost_listing(cache_dir, cache, described(error)[0])]
    if manifest is not None and file_sha256(path) != manifest["items_sha256"]:
        again = f"restore the old file, or {run_again(cache_dir, cache, update=True)}"
        again = "restore the old file, or import the vectors again." if is_imported(cache_dir) else again
        return None, [Finding(f"{path} was edited after the images were embedded.", _as_sentence(again))]
    if len({item.id for item in items}) < len(items):
        return None, [Finding(f"{path} lists an id more than once.", "Restore the old file.")]
    return layout, []


def _lost_listing(cache_dir: Path, cache: dict[str, Any], what: str) -> Finding:
    if is_imported(cache_dir):
        return Finding(what, "Import the vectors again, into a new folder: frostbench cache import …")
    if "shard_sizes" in cache:
        return Finding(what, "Restore the old file, or embed into a new folder: the order of an updated cache is lost.")

    def mend() -> None:
        (cache_dir / "manifest.json").unlink(missing_ok=True)
        (cache_dir / "items.parquet").unlink(missing_ok=True)

    # Do not ask to delete files that are already missing.
    left = [name for name in ("items.parquet", "manifest.json") if (cache_dir / name).exists()]
    again = run_again(cache_dir, cache)
    if not left:
        return Finding(what, _as_sentence(again))
    return Finding(
        what,
        f"Delete {' and '.join(left)} (--repair does), then {again}",
        mend,
        "deleted items.parquet, which the embed command recreates"
        if "items.parquet" in left
        else "deleted the manifest; the embed command lists the images again",
    )


def _unfinished(cache_dir: Path, cache: dict[str, Any]) -> Finding:
    again = _as_sentence(run_again(cache_dir, cache))
    again = "Import the vectors again, into a new folder." if is_imported(cache_dir) else again
    return Finding(f"{cache_dir} is incomplete: it has no manifest.json.", again)


def _as_sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:]


def _failed_checks(cache_dir: Path) -> list[Finding]:
    """Return further problems found by `verify_cache`, except splits, which have their own findings."""
    checks = verify_cache(cache_dir).checks
    return [Finding(*described(CacheError(one.detail))) for one in checks if not one.ok and one.name != "splits"]


def _unsealed_views(cache_dir: Path) -> list[Finding]:
    """Return findings for view sets whose manifests lack digests; `verify_cache` finds their other problems."""
    folders = [views_folder(cache_dir, name) for name in list_views(cache_dir)]
    # Skip links: a repair writes, and a link may lead to foreign files.
    known = [(folder, _manifest(folder)[0]) for folder in folders if not folder.is_symlink()]
    found = [one for folder, manifest in known if manifest is not None for one in seal_findings(folder, manifest)]
    return [one for one in found if one.harmless]


def _strangers(cache_dir: Path) -> list[Finding]:
    """Return findings for files and folders that do not belong to the cache but would be deleted with it."""
    partial = set(partial_files(cache_dir))
    return [
        Finding(f"{path} is not a file of the cache.", f"Move it elsewhere: mv {path} ELSEWHERE", harmless=True)
        for path in sorted(cache_dir.iterdir())
        if path.name not in FILES and path not in partial
    ]


def _splits(cache_dir: Path, layout: Layout | None) -> list[Finding]:
    """Return findings for splits that are damaged, or some of whose rows are no longer listed."""
    known = None if layout is None else {item.id for item in layout.items}
    found = []
    for path in sorted((cache_dir / "splits").glob("*.parquet")):
        try:
            ids = set(read_split(path)[0].tolist())
        except CacheError as error:
            found.append(Finding(*described(error)))
            continue
        if known is not None and (gone := len(ids - known)):
            rows, are = things(len(ids), "row", "rows"), "is" if gone == 1 else "are"
            found.append(
                Finding(
                    f"{path} is unused: a split of {rows}, of which {gone} {are} no longer listed.",
                    f"Keep it if results refer to it, or delete it: rm {path}",
                    harmless=True,
                )
            )
    return found
