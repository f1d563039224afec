"""Experiments of the tab Train, without a browser: what they would train, starting them, and going on with them."""

import json
import os
from contextlib import suppress

import pytest
import yaml
from train_form import first_form

from frostbench.app import jobs
from frostbench.app.jobs.files import folder_of, write_json
from frostbench.app.jobs.records import Status
from frostbench.app.sides import ROWS, with_preset
from frostbench.app.workbench.train.answers import train_answers
from frostbench.app.workbench.train.singles import singles
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand

LR, EPSILON = "train.optim<adamw>.lr", "train.loss.smoothing.epsilon"
SHORT = {"train.schedule.epochs": 4, "train.schedule.min_steps": 0}


@pytest.fixture
def workspace(cache, tmp_path):
    return Workspace(tmp_path, (cache,), tmp_path / "results")


@pytest.fixture
def answer(workspace):
    answers = train_answers(workspace)
    return lambda name, request=None: json.loads(json.dumps(answers[name](request)))


@pytest.fixture
def form(workspace):
    """Presets plain on both sides, with two seeds and few epochs."""
    form = json.loads(json.dumps(first_form(workspace)))
    cache = form["sides"]["A"]["cache"]
    side = {"cache": cache} | json.loads(json.dumps(with_preset({}, "plain"))) | SHORT
    return form | {"sides": {"A": dict(side), "B": dict(side)}, "seeds": 2}


@pytest.fixture
def waiting(monkeypatch):
    """Jobs wait and are not started."""
    monkeypatch.setattr("frostbench.app.jobs.queue.start", lambda *_: None)


def searched(form, method="grid", trials=0, rounds=0, **options):
    """Return a request for a search over options by key: a list of values, or (scale, low, high)."""
    items = []
    for key, values in options.items():
        scale, *rest = values if values and values[0] in ("log", "linear") else ("list", *values)
        items.append({"key": key, "scale": scale, "values": rest})
    search = {"method": method, "trials": trials, "rounds": rounds, "options": items}
    return {"form": form, "kind": "search", "search": search}


def rows_in(commands):
    """Return the rows of the bench file that commands write."""
    return expand(parse(BenchSpec, yaml.safe_load(commands.split("<<'END'\n")[1].split("END\n")[0])))


def sides_of(a, b):
    defaults = {row.key: row.default for row in ROWS}
    return defaults | with_preset(defaults, a), defaults | with_preset(defaults, b)


class TestChanges:
    def test_each_change_is_a_row_between_a_and_all_together(self, answer, form):
        form["sides"]["B"] |= {LR: 0.01, EPSILON: 0.1}
        plan = answer("experiment-plan", {"form": form, "kind": "changes"})
        names = ["A", "Label smoothing ε: 0.1", "Learning rate: 0.01", "all together"]
        assert sorted(row["name"] for row in plan["rows"]) == sorted(names)
        assert (plan["rows"][0]["name"], plan["rows"][-1]["name"]) == ("A", "all together")
        assert (plan["seeds"], plan["runs"], plan["problems"]) == (2, 8, [])
        runs = {row.name: row.specs[0].train for row in rows_in(plan["commands"])}
        assert {name: (run.optim.lr, run.loss.smoothing.epsilon) for name, run in runs.items()} == {
            "plain": (runs["plain"].optim.lr, 0.0),
            "Label smoothing ε: 0.1": (runs["plain"].optim.lr, 0.1),
            "Learning rate: 0.01": (0.01, 0.0),
            "all together": (0.01, 0.1),
        }

    def test_options_of_a_new_kind_belong_to_its_change(self):
        a, b = sides_of("plain", "plain")
        b |= {"head.body.kind": "mlp", "head.body<mlp>.hidden": "64", LR: 0.01}
        found = {single.keys: single for single in singles(a, b)}
        body = found["head.body.kind", "head.body<mlp>.hidden"]
        assert body.run.head.body.hidden == (64,)
        assert body.name == "Body: mlp, MLP: widths of the hidden layers: 64"
        assert set(found) == {body.keys, (LR,)}

    def test_hidden_values_of_a_do_not_leak_into_a_change(self):
        a, b = sides_of("plain", "plain")
        a["head.body<mlp>.hidden"] = "7"
        b["head.body.kind"] = "mlp"
        (body,) = singles(a, b)
        assert body.run.head.body.hidden != (7,)

    def test_a_change_that_is_not_allowed_alone_is_named_with_its_reason(self, answer, form):
        form["sides"]["B"] |= {"head.body.kind": "mlp", "train.loss.supcon.weight": 0.3}
        plan = answer("experiment-plan", {"form": form, "kind": "changes"})
        (skipped,) = plan["skipped"]
        assert skipped["name"] == "SupCon weight: 0.3"
        assert "“" in skipped["reason"]
        assert [row["name"] for row in plan["rows"]] == ["A", "Body: mlp", "all together"]

    def test_one_change_is_a_row_of_its_own(self, answer, form):
        form["sides"]["B"][LR] = 0.01
        plan = answer("experiment-plan", {"form": form, "kind": "changes"})
        assert [row["name"] for row in plan["rows"]] == ["A", "Learning rate: 0.01"]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({}, "A and B are equal. Change a setting of B."),
            ({LR: -1}, "B, Learning rate: This must be greater than 0"),
            ({"train.loss.supcon.weight": 0.3}, "B: "),
        ],
    )
    def test_what_cannot_be_trained_says_why(self, answer, form, change, words):
        form["sides"]["B"] |= change
        asked = {"form": form, "kind": "changes"}
        (problem,) = answer("experiment-plan", asked)["problems"]
        assert problem.startswith(words)
        with pytest.raises(ValueError, match=words[:20]):
            answer("experiment-start", asked)

    def test_its_job_is_listed_with_the_names_of_its_changes(self, answer, form, waiting):
        form["sides"]["B"] |= {LR: 0.01, EPSILON: 0.1}
        job = answer("experiment-start", {"form": form, "kind": "changes"})["jobs"]["changes"]
        (listed,) = answer("train-jobs")["jobs"]
        assert (listed["id"], listed["side"], listed["seeds"]) == (job, "changes", [0, 1])
        assert listed["about"].startswith("4 settings: A; ")
        assert listed["about"].endswith("; all together")

    def test_auto_and_two_data_sets_are_refused(self, own, answer, form):
        form["sides"]["B"][LR] = 0.01
        (problem,) = answer("experiment-plan", {"form": form, "kind": "changes", "auto": True})["problems"]
        assert "auto" in problem
        form["sides"]["B"]["cache"] = str(own)
        (problem,) = answer("experiment-plan", {"form": form, "kind": "changes"})["problems"]
        assert problem.startswith("A and B have different data sets")

    @pytest.mark.slow
    def test_runs_are_found_and_lead_to_the_tab_runs(self, answer, form, workspace):
        form["sides"]["B"] |= {LR: 0.01, EPSILON: 0.1}
        asked = {"form": form, "kind": "changes"}
        commands = answer("experiment-plan", asked)["commands"]
        bench = parse(BenchSpec, yaml.safe_load(commands.split("<<'END'\n")[1].split("END\n")[0]))
        list(run_bench(bench))
        plan = answer("experiment-plan", asked)
        assert (plan["found"], plan["runs"]) == (8, 8)
        assert answer("experiment-estimate", asked) == {"seconds": 0.0, "reason": ""}
        job = answer("experiment-start", asked)["jobs"]["changes"]
        found = jobs.read(workspace.store, job)
        assert (found.state, found.found, found.side) == ("done", 8, "changes")
        links = answer("train-settings", {"jobs": [job]})
        address = links["runs"][job]
        chosen = address.split("chosen=")[1].split("&")[0].split(".")
        assert (len(chosen), f"pinned={chosen[0]}" in address, links["settings"]) == (4, True, {})


class TestSearch:
    def test_a_grid_has_every_combination(self, answer, form):
        plan = answer("experiment-plan", searched(form, **{LR: [0.001, 0.01], EPSILON: [0, 0.1, 0.2]}))
        assert (len(plan["rows"]), plan["runs"]) == (6, 12)
        assert plan["rows"][0]["name"] == "Learning rate 0.001, Label smoothing ε 0"
        assert "train.optim.lr:\n    - 0.001\n    - 0.01\n" in plan["commands"]
        assert len(rows_in(plan["commands"])) == 6
        assert "frostbench bench run search.yaml\n" in plan["commands"]

    def test_random_settings_are_the_same_each_time_and_more_trials_add_to_them(self, answer, form):
        options = {LR: ["log", 0.001, 0.1], EPSILON: [0, 0.1], "train.schedule.epochs": ["linear", 2, 9]}
        few = answer("experiment-plan", searched(form, "random", 5, **options))["rows"]
        many = answer("experiment-plan", searched(form, "random", 9, **options))
        assert (len(few), many["rows"][:5]) == (5, few)
        for row in rows_in(many["commands"]):
            assert 0.001 <= row.changes["train.optim.lr"] <= 0.1
            assert row.changes["train.schedule.epochs"] in range(2, 10)
            assert row.changes["train.loss.smoothing.epsilon"] in (0, 0.1)

    def test_a_logarithmic_range_has_as_many_values_in_each_decade(self, answer, form):
        plan = answer("experiment-plan", searched(form, "random", 200, **{LR: ["log", 0.001, 0.1]}))
        rates = [row.changes["train.optim.lr"] for row in rows_in(plan["commands"])]
        assert 70 <= sum(rate < 0.01 for rate in rates) <= 130

    def test_halving_states_its_rounds_and_command(self, answer, form):
        options = {LR: [0.001 * (i + 1) for i in range(9)]}
        plan = answer("experiment-plan", searched(form, rounds=3, **options))
        assert plan["rounds"] == [
            {"settings": 9, "epochs": 1},
            {"settings": 3, "epochs": 2},
            {"settings": 1, "epochs": 4},
        ]
        assert (plan["runs"], "bench run search.yaml --halving 3" in plan["commands"]) == (26, True)

    @pytest.mark.parametrize(
        ("fields", "options", "key", "words"),
        [
            ({}, {}, "", "needs an option"),
            ({}, {LR: [0.1, -1]}, LR, "greater than 0, and -1 is not"),
            ({}, {LR: []}, LR, "needs 1 to 200 values, got 0"),
            ({}, {LR: [0.1, 0.1]}, LR, "must differ"),
            ({}, {LR: [i / 999 for i in range(1, 150)], EPSILON: [0, 0.1]}, "", "298 combinations"),
            ({}, {"head.body<mlp>.dropout": [0.1, 0.2]}, "head.body<mlp>.dropout", "B does not have this option"),
            ({}, {LR: ["log", 0.1, 0.2]}, LR, "A grid needs a list"),
            ({"method": "random", "trials": 3}, {LR: ["log", 0.2, 0.1]}, LR, "from the smaller to the larger"),
            ({"method": "random", "trials": 3}, {EPSILON: ["log", 0, 0.1]}, EPSILON, "must be above 0"),
            ({"method": "random", "trials": 3}, {LR: ["log", 0.1]}, LR, "needs two numbers"),
            ({"method": "random", "trials": 201}, {LR: [0.1, 0.2]}, "trials", "from 2 to 200, and 201 is not"),
            ({"method": "random", "trials": None}, {LR: [0.1, 0.2]}, "trials", "nothing is not"),
            ({"rounds": 9}, {LR: [0.1, 0.2]}, "rounds", "2 to 5 rounds, got 9"),
        ],
    )
    def test_what_is_wrong_is_told_at_its_field(self, answer, form, fields, options, key, words):
        plan = answer("experiment-plan", searched(form, **fields, **options))
        assert words in plan["fields"][key]
        assert any(words in problem for problem in plan["problems"])

    @pytest.mark.parametrize(
        ("fields", "options", "words"),
        [
            ({"rounds": 3}, {LR: [0.1, 0.2]}, "needs at least 9 settings, got 2"),
            ({"method": "random", "trials": 5}, {EPSILON: [0, 0.1]}, "too few different settings: 2 were found"),
            ({}, {EPSILON: [0.1]}, "at least two settings"),
            ({"rounds": 2}, {"train.schedule.epochs": [1, 2, 3]}, "sets them too"),
        ],
    )
    def test_a_search_that_cannot_be_made_says_why(self, answer, form, fields, options, words):
        (problem,) = answer("experiment-plan", searched(form, **fields, **options))["problems"]
        assert words in problem

    def test_too_many_runs_are_refused(self, answer, form):
        form["seeds"] = 11
        options = {LR: [i / 999 for i in range(1, 101)]}
        (problem,) = answer("experiment-plan", searched(form, **options))["problems"]
        assert "at most 1,000 runs" in problem

    def test_settings_that_are_not_allowed_are_left_out_and_counted(self, answer, form):
        form["sides"]["B"] |= {"head.body.kind": "mlp", "train.loss.supcon.weight": 0.3}
        plan = answer("experiment-plan", searched(form, **{"head.body.kind": ["identity", "mlp"], LR: [0.01, 0.02]}))
        (skipped,) = plan["skipped"]
        assert (len(plan["rows"]), skipped["name"]) == (2, "2 left out")
        assert "SupCon" in skipped["reason"]

    def test_a_plugin_that_was_not_named_at_start_is_refused_and_not_executed(self, cache, form, tmp_path):
        for name in ("mine.py", "other.py"):
            (tmp_path / name).write_text(f"import pathlib\npathlib.Path({str(tmp_path / name)!r} + '.ran').touch()\n")
        mine, other = str(tmp_path / "mine.py"), str(tmp_path / "other.py")
        answers = train_answers(Workspace(tmp_path, (cache,), tmp_path / "results", plugins=(tmp_path / "mine.py",)))
        form["sides"]["B"] |= {"train.loss.point.kind": "external", "train.loss.point<external>.file": mine}
        asked = searched(form, **{"train.loss.point<external>.file": [mine, other]})
        for name in ("experiment-plan", "experiment-estimate", "experiment-start"):
            with suppress(ValueError):
                assert "Plugins execute code" in answers[name](asked)["problems"][0]
        form["sides"]["A"] |= {"train.loss.point.kind": "external", "train.loss.point<external>.file": other}
        plan = answers["experiment-plan"]({"form": form, "kind": "changes"})
        assert "Plugins execute code" in plan["problems"][0]
        assert not list(tmp_path.glob("*.ran"))
        assert not (tmp_path / "results").exists()

    @pytest.mark.slow
    def test_time_is_estimated_for_all_rounds(self, answer, form):
        asked = searched(form, rounds=2, **{LR: [0.001, 0.01, 0.1]})
        assert answer("experiment-estimate", asked)["seconds"] > 0

    def test_a_search_is_one_job_that_is_listed_cancelled_and_gone_on_with(
        self, answer, form, workspace, waiting, monkeypatch
    ):
        job = answer("experiment-start", searched(form, rounds=2, **{LR: [0.001, 0.01, 0.1]}))["jobs"]["search"]
        (listed,) = answer("train-jobs")["jobs"]
        assert (listed["id"], listed["side"], listed["resumable"]) == (job, "search", False)
        assert listed["about"] == "3 settings of Learning rate, halving in 2 rounds"
        with pytest.raises(ValueError, match="ended before all its runs"):
            answer("experiment-resume", {"job": job})
        (cancelled,) = answer("train-cancel", {"job": job})["jobs"]
        assert (cancelled["state"], cancelled["resumable"]) == ("cancelled", True)
        again = answer("experiment-resume", {"job": job})["jobs"]["search"]
        assert again != job
        first, second = (jobs.read(workspace.store, name) for name in (job, again))
        assert (first.bench, first.rounds) == (second.bench, second.rounds)

    def test_progress_is_told_in_runs(self, answer, form, workspace, waiting):
        job = answer("experiment-start", searched(form, **{LR: [0.001, 0.01, 0.1]}))["jobs"]["search"]
        status = Status(state="running", began=1.0, seeds=6, trained=2, found=1, share=0.6, pace=100.0)
        write_json(folder_of(workspace.store, job) / "status.json", status)
        write_json(folder_of(workspace.store, job) / "process.json", _this_process())
        (listed,) = answer("train-jobs")["jobs"]
        assert (listed["text"], listed["share"]) == ("3 of 6 runs · about 40 s left", 60)

    def test_a_job_that_was_changed_is_not_gone_on_with(self, answer, form, workspace, waiting):
        job = answer("experiment-start", searched(form, **{LR: [0.001, 0.01]}))["jobs"]["search"]
        answer("train-cancel", {"job": job})
        path = folder_of(workspace.store, job) / "request.json"
        path.write_text(path.read_text().replace("0.001", "0.002"))
        with pytest.raises(ValueError, match="Only your own experiments"):
            answer("experiment-resume", {"job": job})


def _this_process():
    from frostbench.app.jobs.process import identity

    return identity(os.getpid())


@pytest.mark.parametrize(
    "request_",
    [
        {"kind": "other"},
        {"kind": "search"},
        {"kind": "search", "search": {"method": "other", "options": []}},
        {"kind": "search", "search": {"method": "grid", "options": [{"key": "none", "scale": "list", "values": [1]}]}},
        {"kind": "search", "search": {"method": "grid", "options": [{"key": LR, "scale": "list", "values": 1}]}},
    ],
)
def test_malformed_requests_are_refused(answer, form, request_):
    with pytest.raises(ValueError, match="Reload the page"):
        answer("experiment-plan", {"form": form} | request_)
