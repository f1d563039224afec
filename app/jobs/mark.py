"""The mark that proves that this user submitted a job on this machine; a job without it is never started.

A run store may come from anywhere, and its waiting jobs could train from any folder and execute any plugin. So
submission writes `STORE/jobs/ID/mark`: the HMAC-SHA256 of the machine, the ID and request.json, with a secret readable
by this user alone in `$XDG_STATE_HOME/frostbench` or `~/.local/state/frostbench`, outside every store. The store's path
is not part of the mark, so a store can be moved with its jobs.
"""

import errno
import hashlib
import hmac
import os
import platform
import secrets
from contextlib import suppress
from pathlib import Path

from frostbench.app.jobs.files import parse_request
from frostbench.app.jobs.records import JobError, Request

MACHINE_ID = Path("/etc/machine-id")
SECRET_BYTES = 32
MOST_BYTES = 10 * 2**20
"""Maximum size of a request.json that is read; the page writes a few kilobytes."""


def write_mark(folder: Path, job_id: str) -> None:
    """Mark the job in a folder as submitted by this user on this machine; create the secret if needed.

    Raises:
        JobError: the secret cannot be read or created.
        OSError: the mark cannot be written.
    """
    mark = _mark(_secret(), job_id, (folder / "request.json").read_bytes())
    (folder / "mark").write_text(mark, encoding="ascii")


def read_own(folder: Path) -> Request | None:
    """Return the request of a job if this user submitted it on this machine, otherwise None.

    Raises:
        JobError: the request has a valid mark but is damaged.
    """
    content = _marked_request(folder)
    return None if content is None else parse_request(content)


def is_own(folder: Path) -> bool:
    """Whether this user submitted a job on this machine, and its request.json is unchanged."""
    return _marked_request(folder) is not None


def _marked_request(folder: Path) -> bytes | None:
    """Return the content of request.json if the mark is valid for it."""
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
    message = b"\0".join([b"frostbench job", _machine().encode(), job_id.encode(), request])
    return hmac.new(secret, message, hashlib.sha256).hexdigest()


def _machine() -> str:
    """Return an ID of this machine, so that machines sharing a home directory do not share jobs."""
    try:
        return MACHINE_ID.read_text(encoding="ascii").strip() or platform.node()
    except (OSError, ValueError):
        return platform.node()


def _secret_path() -> Path:
    """Return the path of the secret.

    Raises:
        OSError: this user has no home directory.
    """
    state_home = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG Base Directory Specification requires relative paths to be ignored.
    try:
        base = state_home if state_home.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "this user has no home directory") from error
    return base / "frostbench" / "jobs.secret"


def _read_secret() -> bytes | None:
    """Return the secret, or None if it is missing or incomplete."""
    try:
        secret = _secret_path().read_bytes()
    except FileNotFoundError:
        return None
    return secret if len(secret) == SECRET_BYTES else None


def _secret() -> bytes:
    """Return the secret, creating it if needed; processes that create it concurrently agree on the first one.

    Raises:
        JobError: the secret cannot be read or created.
    """
    path, problem = Path("$XDG_STATE_HOME"), "is damaged. Remove it"
    try:
        path = _secret_path()
        if not path.exists():
            _make_secret(path)
        secret = _read_secret()
    except OSError as error:
        secret = None
        problem = f"cannot be used: {error.strerror}. Fix that, or set XDG_STATE_HOME to a folder of yours"
    if secret is None:
        raise JobError(f"The secret that marks jobs as yours, {path}, {problem}, and submit the job again.")
    return secret


def _make_secret(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # Unlike renaming, linking never replaces an existing file.
        with suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)
