"""Background jobs: one side of the page, trained by a worker process that outlives the page and its server.

Everything that is known of a job stands in the files of its folder, so that any process can watch or cancel it, after a
reload or a restart of the server too. Nothing here imports torch, pandas or gradio.
"""

from frostbench.app.jobs.asking import cancel, submit, submit_found
from frostbench.app.jobs.files import JobError
from frostbench.app.jobs.queue import advance
from frostbench.app.jobs.reading import Job, curves, eta_seconds, jobs, listed, log_tail, newest, read

__all__ = [
    "Job",
    "JobError",
    "advance",
    "cancel",
    "curves",
    "eta_seconds",
    "jobs",
    "listed",
    "log_tail",
    "newest",
    "read",
    "submit",
    "submit_found",
]
