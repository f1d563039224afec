"""Descriptions of what a job trains, taken from the job itself, because the form may have changed since."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any

from frostbench.app.command_lines import run_of
from frostbench.app.jobs import Job
from frostbench.app.page.form import SIDES
from frostbench.app.page.pieces import side_html
from frostbench.benchmarks.settings.parsing import with_changes
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.heads.spec import canonical
from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec

MOST_CHANGES = 4
"""Maximum number of changed options to list."""
UNREADABLE = "unreadable settings"
OUTDATED = (
    '<p class="fp-outdated" data-testid="outdated" role="status" hidden><b>Out of date:</b> the form has changed '
    "since this was trained.</p>"
)


def fingerprint(bench: Mapping[str, Any]) -> str:
    """Return a hash of what a one-row bench trains: settings, cache, seeds and split, however they are written.

    Raises:
        ValueError: a setting is not allowed.
    """
    seeds, split = list(bench["seeds"]), bench.get("split", {})
    parts = [list(bench["caches"]), canonical(run_of(bench)), seeds, split]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def fingerprint_of(job: Job) -> str:
    """Return the fingerprint of what a job trains; empty if its settings are no longer allowed."""
    try:
        return fingerprint(job.bench)
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return ""


def describe_bench(bench: Mapping[str, Any]) -> str:
    """Return the preset, changed options, seeds, split and cache of a bench as plain text.

    >>> describe_bench({"preset": "plain", "base": {"train.ema": 0.9}, "seeds": [0, 1], "caches": ["plants"]})
    'plain with Weight averaging: EMA decay (train.ema) = 0.9 · seeds 0, 1 · cache plants'
    """
    try:
        base, split = bench.get("base", {}), bench.get("split", {})
        tree = with_changes({}, base)
        changes = [_option(label_of(RunSpec, path, tree), path, value) for path, value in base.items()]
        more = f" and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
        changed = f" with {', '.join(changes[:MOST_CHANGES])}{more}" if changes else ""
        seeds = f"seed{'' if len(bench['seeds']) == 1 else 's'} {', '.join(map(str, bench['seeds']))}"
        parts = [_option(label_of(SplitSpec, name), f"split.{name}", value) for name, value in split.items()]
        splits = [", ".join(parts)] if parts else []
        return " · ".join(
            [f"{bench['preset']}{changed}", seeds, *splits, f"cache {', '.join(map(str, bench['caches']))}"]
        )
    except (KeyError, TypeError, AttributeError):
        return UNREADABLE


def _option(label: str, path: str, value: Any) -> str:
    text = json.dumps(value) if isinstance(value, list | dict | bool) else str(value)
    return f"{path if path.endswith(label) else f'{label} ({path})'} = {text}"


def format_time(job: Job) -> str:
    """Return what happened to a job last and when, in the server's time zone.

    >>> format_time(Job(id="", side="A", state="done", found=3, ended=0.0)).split()[0]
    'found'
    """
    if job.ended is None:
        return f"submitted {_time(job.created)}"
    return f"{'found' if job.found and not job.trained else 'ended'} {_time(job.ended)}"


def _time(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds):%d %b %Y, %H:%M}"
    except (ValueError, OverflowError, OSError):
        # A store from elsewhere may hold any number.
        return "at an unknown time"


def runs_html(jobs: Mapping[str, Job]) -> str:
    """Return the runs that a result is about, one line per side, with a note shown when the form has changed."""
    lines = "".join(
        f"<p>{side_html(side)}<span>{escape(describe_bench(jobs[side].bench))} · {format_time(jobs[side])}</span></p>"
        for side in SIDES
        if side in jobs
    )
    trained = " ".join(f'data-fingerprint-{side.lower()}="{fingerprint_of(job)}"' for side, job in jobs.items())
    return f'<div class="fp fp-runs" data-testid="runs" {trained}>{OUTDATED}{lines}</div>'
