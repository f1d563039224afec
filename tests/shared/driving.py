"""Helpers to use the page in a browser, and to start and cancel jobs of its server."""

import json
import time
import urllib.request

ENDLESS = {"train.schedule.epochs": 100_000, "train.schedule.batch_size": 1000, "train.early_stop.patience": 100_000}
SHORT = {"train.schedule.epochs": 4, "train.schedule.min_steps": 0}
LONG = 90_000
"""Timeout in milliseconds for a busy machine."""


def asked(server, name, request=None):
    """Return the server's answer to a request of the page."""
    with urllib.request.urlopen(server.url + "frostbench/token", timeout=60) as reply:
        headers = {"x-frostbench-token": reply.read().decode()}
    body = None if request is None else json.dumps(request).encode()
    wanted = urllib.request.Request(f"{server.url}frostbench/api/{name}", body, headers)
    with urllib.request.urlopen(wanted, timeout=60) as reply:
        return json.load(reply)


def train(server, changes, *, preset="plain", seeds=1, cache="digits"):
    """Start a job for side B and return its ID."""
    found = asked(server, "train-options")
    (values,) = (one["values"] for one in found["presets"] if one["name"] == preset)
    side = {row["key"]: row["default"] for row in found["rows"]} | values | {"cache": cache}
    by_path = {row["path"]: row["key"] for row in found["rows"]}
    changed = side | {by_path[path]: value for path, value in changes.items()}
    form = {"sides": {"A": side, "B": changed}, "seeds": seeds, "split": found["split_values"], "switched": {}}
    return asked(server, "train-start", {"form": form, "sides": ["B"]})["jobs"]["B"]


def jobs_of(server):
    return asked(server, "train-jobs")["jobs"]


def cancel_all(server):
    """Cancel all jobs and wait for their end."""
    for job in jobs_of(server):
        if job["cancellable"]:
            asked(server, "train-cancel", {"job": job["id"]})
    deadline = time.monotonic() + LONG / 1000
    while any(job["cancellable"] for job in jobs_of(server)):
        assert time.monotonic() < deadline, "a job did not end"
        time.sleep(0.2)
