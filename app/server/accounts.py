"""Who may use the page from other machines: a file of names and passwords, checked by HTTP Basic authentication."""

import base64
import binascii
import hashlib
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from frostbench.embedcache.plain_text import read_text

FEWEST_CHARACTERS = 8
"""Smallest length of a password."""
REALM = "Frostbench"


class AccountError(ValueError):
    """A file of accounts is missing, malformed, or readable by others."""


@dataclass(frozen=True)
class Accounts:
    """Names and passwords.

    Attributes:
        digests: SHA-256 of each `name:password`.
    """

    digests: tuple[bytes, ...]

    def allow(self, authorization: str | None) -> bool:
        """Whether an Authorization header states one of the accounts; takes equally long for any wrong one."""
        scheme, _, value = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            stated = base64.b64decode(value.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        digest = hashlib.sha256(stated).digest()
        found = [secrets.compare_digest(digest, known) for known in self.digests]
        return any(found)


def read_accounts(path: Path) -> Accounts:
    """Read a file with a line `name:password` for each person; empty lines and those that begin with # are skipped.

    Raises:
        AccountError: the file is missing, others can read it, it has no account, or a line is not an account.
    """
    if not path.is_file():
        raise AccountError(f"--auth must be a file of lines name:password, but {path} is none. Create it.")
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise AccountError(f"Only you may read the passwords in {path}, but others can. Run: chmod 600 {path}")
    lines = [line.strip() for line in read_text(path, "a file of accounts").splitlines()]
    accounts = [line for line in lines if line and not line.startswith("#")]
    for number, account in enumerate(accounts, start=1):
        name, _, password = account.partition(":")
        if not name or len(password) < FEWEST_CHARACTERS:
            raise AccountError(
                f"An account in {path} must be name:password with at least {FEWEST_CHARACTERS} characters of password, "
                f"but account {number} is not. Correct it."
            )
    if not accounts:
        raise AccountError(f"{path} must have at least one line name:password, but has none. Add one.")
    return Accounts(tuple(hashlib.sha256(account.encode()).digest() for account in accounts))
