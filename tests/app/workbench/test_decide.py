"""What the card Decide of the tab Compare gets from the server, without a browser."""

import shutil
from pathlib import Path

import pytest
from decided_runs import decided_runs
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.workbench.compare import decide
from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.decisions.computing import compute_logits
from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.kept import kept_decision
from frostbench.benchmarks.decisions.stored_logits import read_logits
from frostbench.benchmarks.runs.record import best_of
from frostbench.benchmarks.runs.store import read_outcomes, read_record

KINDS = {"none": {"posthoc.calibration.kind": "none"}, "vector": {"posthoc.calibration.kind": "vector"}}


@pytest.fixture(scope="module")
def trained(cache, tmp_path_factory):
    store = tmp_path_factory.mktemp("decide") / "results"
    rows = decided_runs(cache, store, seeds=(0, 1), kinds=KINDS)
    for key in (key for keys in rows.values() for key in keys):
        compute_logits(store, key, cache)
    return store, rows


@pytest.fixture
def store(trained, tmp_path):
    return shutil.copytree(trained[0], tmp_path / "results")


@pytest.fixture
def client(store, cache):
    return TestClient(Starlette(routes=routes(Workspace(cache.parent, (), store), "token")))


@pytest.fixture
def sides(store, trained):
    return {"store": str(store), "a": list(trained[1]["none"]), "b": list(trained[1]["plain"])}


def ask(client, name, **asked):
    return client.post(f"/frostbench/api/{name}", json=asked)


@pytest.fixture
def without(sides, store):
    """The sides, in a store without logits."""
    for path in store.glob("runs/*/logits.safetensors"):
        path.unlink()
    return sides


def best(store, keys):
    return best_of([read_record(store, key) for key in keys])


def test_logits_that_are_missing_are_said_to_be_and_computed(client, without, store, cache):
    tree = ask(client, "decide", **without, decision={}).json()
    assert {one["state"] for one in tree["sides"].values()} == {"missing"}
    states = set()
    while "done" not in states:
        states.add(ask(client, "decide_logits", **without, cache=str(cache)).json()["state"])
    assert states <= {"computing", "done"}
    for side in "ab":
        assert set(read_logits(store, best(store, without[side]).key).rows) == {"select", "test"}
    assert ask(client, "decide", **without, decision={}).json()["sides"]["b"]["state"] == "ready"
    assert ask(client, "decide_logits", **without, cache=str(cache)).json() == {"state": "done"}


def test_why_logits_cannot_be_computed_is_told(client, without, store, cache):
    shutil.rmtree(store / "runs" / best(store, without["b"]).key / "head")
    shutil.rmtree(store / "runs" / best(store, without["a"]).key / "head")
    while (reply := ask(client, "decide_logits", **without, cache=str(cache))).json() == {"state": "computing"}:
        pass
    assert reply.status_code == 400
    assert "keeps none. Choose a setting with heads" in reply.json()["error"]


def test_a_worker_that_is_killed_is_told(client, without, cache, monkeypatch):
    monkeypatch.setattr(decide.sys, "executable", shutil.which("false"))
    while (reply := ask(client, "decide_logits", **without, cache=str(cache))).json() == {"state": "computing"}:
        pass
    assert reply.json()["error"] == "The process that computes logits was killed."


def test_as_it_is_the_figures_are_those_of_the_best_run(client, sides, store):
    tree = ask(client, "decide", **sides, decision={}).json()
    assert tree["role"] == "select"
    for side in "ab":
        found, record = tree["sides"][side], best(store, sides[side])
        assert (found["key"], found["seed"], found["kept"]) == (record.key, record.seed, None)
        assert found["images"] == len(read_outcomes(store, record.key, "select"))
        assert found["before"] == found["after"]
        assert found["classes"] == []
        metrics = record.evaluations["select"].metrics
        for name in ("macro_f1_fg", "accuracy"):
            assert found["before"][name] == pytest.approx(metrics[name])
        if not found["fitted_here"]:
            for name in ("nll", "ece"):
                assert found["before"][name] == pytest.approx(metrics[name], abs=1e-5)
    assert tree["sides"]["a"]["fitted_here"] is False


def test_an_abstention_leaves_answers_open(client, sides, store):
    outcomes = read_outcomes(store, best(store, sides["a"]).key, "select")
    least = float(outcomes["confidence"].median()) + 1e-4
    tree = ask(client, "decide", **sides, decision={"abstain_below": least}).json()["sides"]["a"]
    answered = outcomes[outcomes["confidence"] >= least]
    assert 0 < len(answered) < len(outcomes)
    assert tree["after"]["coverage"] == pytest.approx(len(answered) / len(outcomes))
    assert tree["after"]["risk"] == pytest.approx((answered["label"] != answered["predicted"]).mean())
    assert tree["after"]["nll"] == tree["before"]["nll"]
    assert tree["classes"]
    changes = [abs(one["f1_after"] - one["f1_before"]) for one in tree["classes"]]
    assert changes == sorted(changes, reverse=True)


def test_a_head_that_takes_no_other_prior_says_why(client, trained, sides):
    sides = sides | {"a": list(trained[1]["vector"])}
    tree = ask(client, "decide", **sides, decision={}).json()["sides"]
    assert "calibration (vector) would have to be fitted again" in tree["a"]["why_no_prior"]
    assert tree["b"]["why_no_prior"] == ""
    tree = ask(client, "decide", **sides, decision={"uniform": 1}).json()["sides"]
    assert tree["a"]["refused"].startswith("The class prior of this head cannot be changed here.")
    assert (tree["a"]["after"], tree["a"]["classes"], tree["b"]["refused"]) == (None, [], "")
    assert tree["b"]["after"]["nll"] != tree["b"]["before"]["nll"]
    reply = ask(client, "keep_decision", **sides, side="a", decision={"uniform": 1})
    assert reply.json()["error"] == tree["a"]["refused"]


def test_test_images_are_closed_until_they_were_looked_at(client, sides):
    reply = ask(client, "decide", **sides, decision={}, reveal=True)
    assert (reply.status_code, reply.json()["error"][:23]) == (400, "Test images are closed.")
    ask(client, "compare", **sides, reveal=True)
    assert ask(client, "decide", **sides, decision={}, reveal=True).json()["role"] == "test"
    assert ask(client, "decide", **sides, decision={}, reveal="yes").json()["role"] == "select"


def test_a_decision_is_kept_for_the_run_that_an_export_takes(client, sides, store):
    wanted = {"temperature": 2.0, "abstain_below": 0.5}
    reply = ask(client, "keep_decision", **sides, side="b", decision=wanted).json()
    key = best(store, sides["b"]).key
    assert reply["export"] == str(store / key)
    assert kept_decision(store, key) == Decision(**wanted)
    tree = ask(client, "decide", **sides, decision={}).json()["sides"]
    assert tree["b"]["kept"] == reply["kept"]
    assert tree["a"]["kept"] is None
    assert ask(client, "keep_decision", **sides, side="b", decision={}).json()["kept"] is None
    assert kept_decision(store, key) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decision": {"temperature": 0}}, "A decision must be within its bounds, but temperature: Input should be"),
        ({"decision": {"heat": 1}}, "heat: Extra inputs are not permitted"),
        ({"decision": {"shares": {"y": 0.7, "z": 0.4}}}, "The shares of classes must sum to at most 1, got 1.1."),
        ({"decision": []}, "A decision must be within its bounds"),
        ({"decision": {"shares": {"z": 0.5}}}, "Shares must name classes of the head"),
        ({"decision": {"costs": [{"label": "z", "predicted": "y", "cost": 1}]}}, "Costs must name classes"),
        ({"a": None}, "A decision needs a store and the run keys"),
        ({"b": []}, "A decision needs a store and the run keys"),
        ({"store": "/etc"}, "The store must be one of "),
        ({"side": "c"}, "A decision is kept for side a or b, got 'c'"),
    ],
)
def test_bad_requests_are_refused(client, sides, changes, message):
    for name in ["keep_decision"] if "side" in changes else ["decide", "keep_decision"]:
        reply = ask(client, name, **({"side": "a", "decision": {}} | sides | changes))
        assert reply.status_code == 400
        assert message in reply.json()["error"]
    assert client.post("/frostbench/api/decide", json=[]).status_code == 400


def test_only_caches_of_the_page_are_read(client, without, tmp_path):
    reply = ask(client, "decide_logits", **without, cache=str(tmp_path))
    assert "The cache must be one of " in reply.json()["error"]
    assert not list(Path(without["store"]).glob("runs/*/logits.safetensors"))
