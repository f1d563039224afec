"""What a job stands for, in its own words: never in those of the form, which may have changed since."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any

from frostbench.app.command_lines import run_of
from frostbench.app.jobs import Job
from frostbench.app.page.pieces import MARKS
from frostbench.app.page.state import SIDES
from frostbench.heads.spec import canonical

MOST_CHANGES = 4
"""Differences from a preset that are named."""
UNREADABLE = "settings that cannot be read"
OUTDATED = (
    '<p class="fp-outdated" data-testid="outdated" role="status" hidden><b>Out of date:</b> the form has changed '
    "since. This is still what was trained before.</p>"
)


def fingerprint(bench: Mapping[str, Any]) -> str:
    """A name for what a bench of one row trains: its settings, cache, seeds and split, however they are written.

    Raises:
        ValueError: its settings are not allowed.
    """
    seeds, split = list(bench["seeds"]), bench.get("split", {})
    parts = [list(bench["caches"]), canonical(run_of(bench)), seeds, split]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def fingerprint_of(job: Job) -> str:
    """The fingerprint of a job; empty where its settings are not allowed any more, so that no form equals it."""
    try:
        return fingerprint(job.bench)
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return ""


def describe_bench(bench: Mapping[str, Any]) -> str:
    """The preset, what differs from it, the seeds, the split and the cache of a bench, as plain text.

    >>> describe_bench({"preset": "plain", "base": {"train.ema": 0.9}, "seeds": [0, 1], "caches": ["plants"]})
    'plain with train.ema=0.9 · seeds 0, 1 · cache plants'
    """
    try:
        changes = [f"{path}={_word(value)}" for path, value in bench.get("base", {}).items()]
        named = ", ".join(changes[:MOST_CHANGES])
        more = f" and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
        parts = [f"{bench['preset']} with {named}{more}" if changes else str(bench["preset"])]
        parts.append(f"seed{'' if len(bench['seeds']) == 1 else 's'} {', '.join(map(str, bench['seeds']))}")
        split = ", ".join(f"{name}={_word(value)}" for name, value in bench.get("split", {}).items())
        parts += [f"split {split}"] if split else []
        return " · ".join([*parts, f"cache {', '.join(map(str, bench['caches']))}"])
    except (KeyError, TypeError, AttributeError):
        return UNREADABLE


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list | dict | bool) else str(value)


def when(job: Job) -> str:
    """What became of a job and when, in the server's time.

    >>> when(Job(id="", side="A", state="done", found=3, ended=0.0)).split()[0]
    'found'
    """
    if job.ended is None:
        return f"asked for {_time(job.created)}"
    return f"{'found' if job.found and not job.trained else 'ended'} {_time(job.ended)}"


def _time(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds):%d %b %Y, %H:%M}"
    except (ValueError, OverflowError, OSError):
        # A store of somebody else may say any number.
        return "at a time that is none"


def runs_html(found: Mapping[str, Job]) -> str:
    """Which runs a result is of: a line for each side, and a note that is shown when the form says something else."""
    lines = "".join(
        f'<p><b class="fp-side fp-{side}"><span aria-hidden="true">{MARKS[side]}</span> {side}</b>'
        f"<span>{escape(describe_bench(found[side].bench))} · {when(found[side])}</span></p>"
        for side in SIDES
        if side in found
    )
    asked = " ".join(f'data-asked-{side.lower()}="{fingerprint_of(job)}"' for side, job in found.items())
    return f'<div class="fp fp-runs" data-testid="runs" {asked}>{OUTDATED}{lines}</div>'
