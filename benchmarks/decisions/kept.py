"""The decision kept for a run: RUN/decision.json beside its head, written atomically, with its own digest."""

import json
from pathlib import Path

from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.runs.store import DECISION_FILE, StoreError, run_folder
from frostbench.embedcache.outputs.writing import write_json
from frostbench.heads.bundle.files import is_as_sealed, sealed

SEAL, FORMAT = "decision_sha256", 1
MOST_BYTES = 16 * 2**20


def keep(store: Path, key: str, decision: Decision) -> Path:
    """Keep a decision for a run, in place of an earlier one; a neutral one removes it. Return the path of the file.

    Raises:
        OSError: the file cannot be written.
        StoreError: the store has no such run.
    """
    folder = run_folder(store, key)
    if not (folder / "record.json").is_file():
        raise StoreError(f"A decision belongs to a run of the store, but {folder} has no record. Choose another run.")
    path = folder / DECISION_FILE
    if decision == Decision():
        path.unlink(missing_ok=True)
        return path
    tree = {"format_version": FORMAT, "run": key, "decision": decision.model_dump(mode="json")}
    write_json(path, sealed(tree, SEAL))
    return path


def kept_decision(store: Path, key: str) -> Decision | None:
    """Return the decision kept for a run, or None.

    Raises:
        StoreError: the file was edited, belongs to another run, or is of another version.
    """
    path = run_folder(store, key) / DECISION_FILE
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes")
        tree = json.loads(path.read_bytes())
        if not isinstance(tree, dict) or SEAL not in tree or not is_as_sealed(tree, SEAL):
            raise ValueError("it was changed after it was written")
        if (tree.get("format_version"), tree.get("run")) != (FORMAT, key):
            raise ValueError(f"it is for run {tree.get('run')!r} in format {tree.get('format_version')!r}")
        return Decision.model_validate(tree.get("decision"))
    except (ValueError, OSError, RecursionError) as error:
        raise StoreError(
            f"{path} must be as the page wrote it for this run, but it is not: {error}. Delete it, or choose the "
            "decision again."
        ) from error
