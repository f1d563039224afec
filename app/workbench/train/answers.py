"""What the tab Train asks for, by name."""

from collections.abc import Callable
from typing import Any

from frostbench.app.workbench.train import experiment_answers as experiments
from frostbench.app.workbench.train.checking import about_data, check_form
from frostbench.app.workbench.train.job_list import cancel_job, job_list, log_of, settings_of_jobs
from frostbench.app.workbench.train.launching import estimate, plan, start
from frostbench.app.workbench.train.options import options_tree
from frostbench.app.workspace import Workspace


def train_answers(workspace: Workspace) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the tab's requests."""
    return {
        "train-options": lambda _: options_tree(workspace),
        "train-data": lambda request: about_data(request, workspace),
        "train-check": lambda request: check_form(request, workspace),
        "train-plan": lambda request: plan(request, workspace),
        "train-estimate": lambda request: estimate(request, workspace),
        "train-start": lambda request: start(request, workspace),
        "experiment-plan": lambda request: experiments.plan(request, workspace),
        "experiment-estimate": lambda request: experiments.estimate(request, workspace),
        "experiment-start": lambda request: experiments.start(request, workspace),
        "experiment-resume": lambda request: experiments.resume(request, workspace),
        "train-jobs": lambda _: job_list(workspace),
        "train-cancel": lambda request: cancel_job(request, workspace),
        "train-log": lambda request: log_of(request, workspace),
        "train-settings": lambda request: settings_of_jobs(request, workspace),
    }
