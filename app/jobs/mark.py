"""The mark of a job that this user asked for on this machine; without it a job is never started.

A run store may come from anywhere, and what waits in it would train as its files say, from any folder and with any
plugin. So whoever asks for a job writes `STORE/jobs/ID/mark`: the HMAC-SHA256 of the machine, the ID and request.json,
by a secret that lies outside every store, in `$XDG_STATE_HOME/frostbench` or `~/.local/state/frostbench`, for this user
alone. The place of the store is not in it: a store that its user moves keeps its jobs.
"""

import errno
import hashlib
import hmac
import os
import platform
import secrets
from contextlib import suppress
from pathlib import Path

from frostbench.app.jobs.files import JobError, Request, parsed_request

MACHINE_ID = Path("/etc/machine-id")
SECRET_BYTES = 32
MOST_BYTES = 10 * 2**20
"""The largest request.json; that of a page has some kilobytes."""


def write_mark(folder: Path, job_id: str) -> None:
    """Mark the job in a folder as asked for by this user on this machine; the secret is made where there is none.

    Raises:
        JobError: the secret cannot be read or made.
        OSError: the mark cannot be written.
    """
    made = _mark(_secret(), job_id, (folder / "request.json").read_bytes())
    (folder / "mark").write_text(made, encoding="ascii")


def read_own(folder: Path) -> Request | None:
    """What a job is to train, where this user asked for it on this machine; None where not.

    Raises:
        JobError: it is ours and damaged.
    """
    content = _marked(folder)
    return None if content is None else parsed_request(content)


def is_own(folder: Path) -> bool:
    """Whether this user asked for a job on this machine, and its request.json is as it was written."""
    return _marked(folder) is not None


def _marked(folder: Path) -> bytes | None:
    try:
        with (folder / "mark").open("rb") as file:
            mark = file.read(2 * hashlib.sha256().digest_size + 1)
        with (folder / "request.json").open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        secret = _read_secret()
    except OSError:
        return None
    if secret is None or len(content) > MOST_BYTES:
        return None
    return content if hmac.compare_digest(mark, _mark(secret, folder.name, content).encode()) else None


def _mark(secret: bytes, job_id: str, request: bytes) -> str:
    said = b"\0".join([b"frostbench job", _machine().encode(), job_id.encode(), request])
    return hmac.new(secret, said, hashlib.sha256).hexdigest()


def _machine() -> str:
    """A name for this machine, so that a home on several machines does not make one's jobs those of another."""
    try:
        return MACHINE_ID.read_text(encoding="ascii").strip() or platform.node()
    except (OSError, ValueError):
        return platform.node()


def _place() -> Path:
    """Where the secret lies.

    Raises:
        OSError: this user has no home.
    """
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    # A relative one is to be ignored (XDG Base Directory Specification); it would lie in whatever folder this is.
    try:
        base = named if named.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "this user has no home") from error
    return base / "frostbench" / "jobs.secret"


def _read_secret() -> bytes | None:
    """The secret; None where there is none, or where it is not whole."""
    try:
        found = _place().read_bytes()
    except FileNotFoundError:
        return None
    return found if len(found) == SECRET_BYTES else None


def _secret() -> bytes:
    """The secret, made where there is none; of two processes that make it at once both take that of the first.

    Raises:
        JobError: it cannot be read or made.
    """
    place, why = Path("$XDG_STATE_HOME"), "it is damaged. Remove it"
    try:
        place = _place()
        if not place.exists():
            _make(place)
        found = _read_secret()
    except OSError as error:
        found, why = None, f"{error.strerror}. Mend that, or set XDG_STATE_HOME to a folder of yours"
    if found is None:
        raise JobError(f"a job is marked as yours by a secret in {place}, however: {why}, and ask for the job again.")
    return found


def _make(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = place.with_name(f".{place.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a renamed file, never takes the place of one that is there.
        with suppress(FileExistsError):
            os.link(partial, place)
    finally:
        partial.unlink(missing_ok=True)
