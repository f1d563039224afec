"""Progress of a job in words."""

from frostbench.app.jobs import Job, eta_seconds
from frostbench.app.jobs.messages import waiting_message
from frostbench.benchmarks.settings.nouns import with_noun


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
    if job.share is not None:
        return _experiment_text(job)
    parts = [f"seed {job.seed_number} of {job.seeds}"] if job.seed_number else []
    parts += [f"epoch {job.epoch} of at most {job.epochs}"] if job.epochs else []
    parts += [f"best macro F1 {job.best:.3f} in epoch {job.best_epoch}"] if job.best is not None else []
    left = eta_seconds(job) if job.state == "running" else None
    parts += [f"at most {_duration(left)} left"] if left is not None else []
    return " · ".join(parts)


def _experiment_text(job: Job) -> str:
    left = eta_seconds(job) if job.state == "running" else None
    parts = [job.message.rstrip(".")] if job.message else []
    parts += [f"{job.found + job.trained} of {with_noun(job.seeds, 'run')}"] if job.seeds else []
    parts += [f"about {_duration(left)} left"] if left is not None else []
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
