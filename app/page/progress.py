"""Progress of the jobs of A and B as HTML: a line and a card per job, and their curves in one chart."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from frostbench.app.jobs import Job, eta_seconds, share_done
from frostbench.app.jobs.messages import waiting_message
from frostbench.app.page.form import SIDES
from frostbench.app.page.job_text import describe_bench, fingerprint_of
from frostbench.app.page.pieces import MARKS, side_html
from frostbench.benchmarks.settings.nouns import with_noun

STATE_LABELS = {
    "queued": "◔ waiting",
    "running": "▶ training",
    "done": "✔ done",
    "cancelled": "■ cancelled",
    "failed": "✖ failed",
    "lost": "? lost",
    "foreign": "⇄ not started here",
}
IDLE = "Nothing has been trained from this page yet. Set the options and press <b>Train A and B, then compare</b>."
LOADING = '<div class="fp fp-none" data-testid="jobs" data-state="loading">Loading jobs…</div>'
OLD = ' <em class="fp-outdated" hidden>(the form has changed since)</em>'
Curves = Mapping[int, Mapping[str, Sequence[float | None]]]


def lines_html(jobs: Mapping[str, Job], idle: str = "") -> str:
    """Return a line with a progress bar for each side's job, or a note and the text `idle` if there is no job."""
    if not jobs:
        return f'<div class="fp fp-none" data-testid="jobs" data-state="idle">{IDLE} {escape(idle)}</div>'
    state = "working" if any(job.state in ("queued", "running") for job in jobs.values()) else "ended"
    lines = "".join(_line(side, jobs.get(side)) for side in SIDES)
    return f'<div class="fp" data-testid="jobs" data-state="{state}">{lines}</div>'


def _line(side: str, job: Job | None) -> str:
    name = side_html(side)
    if job is None:
        text = f"{name}<span>not trained yet</span>"
        return f'<div class="fp-line-of" data-testid="job-{side}" data-state="idle">{text}</div>'
    share = share_done(job)
    bar = (
        f'<span class="fp-bar" role="progressbar" aria-label="{side}: progress" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{share:.0f}"><i class="fp-{side}" style="width:{share:.1f}%"></i></span>'
    )
    return (
        f'<div class="fp-line-of fp-is-{job.state}" data-testid="job-{side}" data-state="{job.state}" '
        f'data-run="{escape(job.id)}" data-n="{job.epoch}" data-fingerprint-{side.lower()}="{fingerprint_of(job)}">'
        f"{name}{bar}<span><b>{'■ stopping' if job.stopping else STATE_LABELS[job.state]}</b> "
        f"{escape(progress_text(job))}{OLD}</span></div>"
    )


def progress_html(jobs: Mapping[str, Job], curves: Mapping[str, Curves], logs: Mapping[str, str] | None = None) -> str:
    """Return the messages of the jobs, the logs of failed ones, and the validation curves of the current seeds."""
    if not jobs:
        return f'<div class="fp fp-empty">{IDLE}</div>'
    cards = "".join(_card(side, jobs[side], (logs or {}).get(side, "")) for side in SIDES if side in jobs)
    chart = _curves_html({side: curves.get(side, {}) for side in SIDES})
    return f'<div class="fp fp-jobs" data-testid="progress">{cards}{chart}</div>'


def _card(side: str, job: Job, log: str) -> str:
    details = (
        f'<details class="fp-log"><summary>Show the log</summary><pre>{escape(log)}</pre></details>'
        if job.state in ("failed", "lost") and log
        else ""
    )
    notes = "".join(f"<li>{escape(warning)}</li>" for warning in job.warnings)
    warnings = f'<ul class="fp-notes">{notes}</ul>' if notes else ""
    message = escape(job.message or STATE_LABELS[job.state])
    settings = f"<p>{escape(describe_bench(job.bench))}</p>"
    return (
        f'<section class="fp-card fp-is-{job.state}" data-testid="card-{side}" data-run="{escape(job.id)}">'
        f"{side_html(side, 'h3')}"
        f'{settings}<p class="fp-message">{message}</p>{details}{warnings}</section>'
    )


def progress_text(job: Job) -> str:
    """Return the progress of a job as text."""
    if job.stopping:
        return job.message
    if job.state == "queued":
        if job.message not in ("", waiting_message(job.ahead)):
            return job.message
        return f"{with_noun(job.ahead, 'job')} ahead" if job.ahead else "starting"
    if job.state == "done":
        return _result_text(job)
    parts = [f"seed {job.seed_number} of {job.seeds}"] if job.seed_number else []
    parts += [f"epoch {job.epoch} of at most {job.epochs}"] if job.epochs else []
    parts += [f"best macro F1 {job.best:.3f} in epoch {job.best_epoch}"] if job.best is not None else []
    left = eta_seconds(job) if job.state == "running" else None
    parts += [f"at most {_duration(left)} left"] if left is not None else []
    return " · ".join(parts)


def _result_text(job: Job) -> str:
    took = f"in {_duration(job.ended - job.began)}" if job.ended is not None and job.began is not None else ""
    if job.found and not job.trained:
        return f"{job.found} found in the store, none to train"
    runs = f"{job.found} found in the store, {job.trained} trained" if job.found else f"{job.trained} trained"
    return f"{runs} {took}".strip()


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


WIDTH, HEIGHT, LEFT, BOTTOM = 560.0, 150.0, 44.0, 24.0


def _curves_html(curves: Mapping[str, Curves]) -> str:
    """Return a chart of validation macro F1 by epoch for each side's latest seed; empty without two epochs."""
    lines = {}
    for side, seeds in curves.items():
        if seeds:
            latest = seeds[max(seeds)]
            pairs = zip(latest["epoch"], latest["macro_f1_fg"], strict=True)
            points = [(float(e), float(v)) for e, v in pairs if e is not None and v is not None and math.isfinite(v)]
            if len(points) > 1:
                lines[side] = points
    if not lines:
        return ""
    all_points = [point for points in lines.values() for point in points]
    last, low, high = max(e for e, _ in all_points), min(v for _, v in all_points), max(v for _, v in all_points)
    pad = 0.08 * ((high - low) or 0.1)
    low, high = low - pad, high + pad

    def coordinates(point: tuple[float, float]) -> str:
        x = LEFT + (WIDTH - LEFT - 8) * (point[0] - 1) / max(1.0, last - 1)
        return f"{x:.1f},{(HEIGHT - BOTTOM) - (HEIGHT - BOTTOM - 8) * (point[1] - low) / (high - low):.1f}"

    drawn = "".join(
        f'<polyline class="fp-line fp-{side}" points="{" ".join(coordinates(p) for p in points)}"/>'
        for side, points in lines.items()
    )
    names = " ".join(f"{MARKS[side]} {side}: {points[-1][1]:.3f}" for side, points in lines.items())
    ends = (
        f'<text x="{LEFT - 6}" y="14" text-anchor="end">{high:.2f}</text>'
        f'<text x="{LEFT - 6}" y="{HEIGHT - BOTTOM}" text-anchor="end">{low:.2f}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 6}">epoch 1</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">{last:.0f}</text>'
        f'<path class="fp-axis" d="M{LEFT},6V{HEIGHT - BOTTOM}H{WIDTH - 8}"/>'
    )
    return (
        f'<figure class="fp-curves" data-testid="curves"><figcaption>Validation macro F1 by epoch, latest seed: {names}'
        f'</figcaption><svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
        f'aria-label="Validation macro F1 by epoch. {names}">{ends}{drawn}</svg></figure>'
    )
