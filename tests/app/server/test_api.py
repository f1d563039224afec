"""The API for programs, called by Gradio's own client against a server in its own process."""

import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from gradio_client import Client

pytestmark = pytest.mark.slow
SHORT = {"train.schedule.epochs": 2, "train.schedule.min_steps": 0}


@pytest.fixture(scope="module")
def url(cache, tmp_path_factory):
    """The address of a server in a folder of its own."""
    folder = tmp_path_factory.mktemp("api")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "frostbench.app.cli", "app", str(cache), "--port", str(port)]
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address, deadline = f"http://127.0.0.1:{port}/", time.monotonic() + 90
    while True:
        try:
            urllib.request.urlopen(address + "frostbench/token", timeout=5).close()
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    yield address
    running.terminate()
    running.wait(30)


@pytest.fixture(scope="module")
def client(url):
    with urllib.request.urlopen(url + "frostbench/token", timeout=30) as answer:
        token = answer.read().decode()
    return Client(url, headers={"x-frostbench-token": token}, httpx_kwargs={"timeout": 120}, verbose=False)


def test_every_function_is_typed_and_described(client):
    found = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(found) == {
        "/data_sets", "/labels_to_check", "/correct_labels", "/train", "/jobs", "/cancel", "/runs", "/compare",
        "/predict", "/export",
    }  # fmt: skip
    types = {one["parameter_name"]: one["python_type"]["type"] for one in found["/train"]["parameters"]}
    assert types["cache"] == "str"
    assert types["seeds"] == "int"


def test_a_program_trains_compares_predicts_and_exports(client, url, cache):
    assert client.predict(api_name="/data_sets")[0]["classes"] == 3
    for settings in (SHORT, SHORT | {"train.loss.smoothing.epsilon": 0.2}):
        job = client.predict(str(cache), "plain", settings, 2, {}, api_name="/train")["job"]
        deadline = time.monotonic() + 120
        while (state := _state(client, job)) not in ("done", "failed"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert state == "done"
    a, b = client.predict(api_name="/runs")["settings"]
    assert "train.loss.smoothing.epsilon" in [change["option"] for one in (a, b) for change in one["changes"]]
    compared = client.predict(a["store"], a["keys"], b["keys"], api_name="/compare")
    assert compared["role"] == "select"
    made = client.predict(setting=a["id"], api_name="/export")
    with urllib.request.urlopen(url.rstrip("/") + made["file"], timeout=60) as answer:
        assert answer.read(2) == b"PK"


def _state(client, job):
    return next(one["state"] for one in client.predict(api_name="/jobs")["jobs"] if one["id"] == job)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"cache": "none"}, "The cache must be one of"),
        ({"cache": "", "preset": "nonsense"}, "A preset must be one of"),
        ({"cache": "", "preset": "plain", "settings": {"train.optim.lr": -5}}, "Learning rate"),
        ({"cache": "", "preset": "plain", "settings": {"no.such": 1}}, "no.such"),
        (
            {
                "cache": "",
                "preset": "plain",
                "settings": {"head.classifier.kind": "zero_shot", "head.classifier.file": "/etc/passwd"},
            },
            "only reads files below",
        ),
        ({"cache": "", "split": {"roles_from": "/etc/passwd"}}, "only reads files below"),
    ],
)
def test_errors_reach_the_program_in_words(client, cache, call, message):
    with pytest.raises(Exception, match=message):
        client.predict(**call | {"cache": call["cache"] or str(cache)}, api_name="/train")


def test_a_program_without_the_token_is_refused(url):
    request = urllib.request.Request(
        url + "gradio_api/call/jobs", b'{"data": []}', {"content-type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request, timeout=30)
