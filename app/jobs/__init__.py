"""Background jobs: each trains a side or an experiment of the page in a process that outlives page and server.

The full state of a job is in the files of its folder, so that any process can watch or cancel it, even after a reload
or a restart of the server. Nothing here imports torch, pandas or gradio.
"""

from frostbench.app.jobs.queue import advance
from frostbench.app.jobs.reading import Job, curves, eta_seconds, jobs, list_jobs, log_tail, newest, read, share_done
from frostbench.app.jobs.records import JobError
from frostbench.app.jobs.submission import cancel, submit, submit_found

__all__ = [
    "Job",
    "JobError",
    "advance",
    "cancel",
    "curves",
    "eta_seconds",
    "jobs",
    "list_jobs",
    "log_tail",
    "newest",
    "read",
    "share_done",
    "submit",
    "submit_found",
]
