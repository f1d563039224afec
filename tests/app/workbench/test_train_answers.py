"""What the tab Train asks for, without a browser."""

import json
import shutil
from pathlib import Path

import pytest
from train_form import first_form

from frostbench.app import jobs
from frostbench.app.workbench.train.answers import train_answers
from frostbench.app.workbench.train.options import USUAL
from frostbench.app.workspace import Workspace
from frostbench.embedcache.labels.corrections import Correction, add_corrections, labels_file
from frostbench.embedcache.table import read_table

LR, TAU = "train.optim<adamw>.lr", "train.loss.logit_adjustment.tau"


@pytest.fixture
def workspace(cache, tmp_path):
    return Workspace(tmp_path, (cache,), tmp_path / "results")


@pytest.fixture
def answer(workspace):
    answers = train_answers(workspace)
    return lambda name, request=None: json.loads(json.dumps(answers[name](request)))


@pytest.fixture
def form(workspace):
    return json.loads(json.dumps(first_form(workspace)))


def test_usual_settings_are_rows_and_about_fourteen_exist_at_once(answer):
    found = answer("train-options")
    keys = {row["key"]: row for row in found["rows"]}
    assert set(USUAL) <= set(keys)
    values = {key: row["default"] for key, row in keys.items()}
    shown = [key for key in USUAL if all(values[need] == kind for need, kind in keys[key]["needs"])]
    assert 12 <= len(shown) <= 16
    assert found["presets"][0]["name"] == "auto"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (LR, -5, "This must be greater than 0, and -5 is not. Enter a larger number, such as 0.003."),
        (LR, None, "This field is empty, but needs a number. Enter one, such as 0.003."),
        (LR, "0,5", "This must be a number, and 0,5 is not. Use a point for decimals."),
        ("train.schedule.epochs", 2.5, "This must be a whole number, and 2.5 is not. Enter one, such as 50."),
        (
            "head.body<mlp>.hidden",
            "a, 3",
            "This must be whole numbers with commas between them, such as 768, 384. a is not a whole number.",
        ),
        ("posthoc.deploy_prior", "{", "This must be written as YAML, such as {owl: 0.3, sparrow: 0.7}. You entered {."),
        ("columns", ["none"], "The data set has no none. Choose from avg."),
    ],
)
def test_errors_are_at_their_field_and_in_words(answer, form, key, value, words):
    form["sides"]["B"][key] = value
    reply = answer("train-check", {"form": form, "visible": []})
    assert reply["sides"]["B"]["errors"] == {key: words}
    assert reply["sides"]["A"]["errors"] == {}
    plan = answer("train-plan", {"form": form, "sides": ["A", "B"]})
    assert (len(plan["problems"]), plan["problems"][0].endswith(words)) == (1, True)
    with pytest.raises(ValueError, match=r"^B, "):
        answer("train-start", {"form": form, "sides": ["B"]})


@pytest.mark.parametrize("seeds", [0, None, "x", 1.5])
def test_wrong_seeds_are_a_shared_error(answer, form, seeds):
    form["seeds"] = seeds
    assert "whole number from 1 to 50" in answer("train-check", {"form": form})["shared"]["seeds"]


def test_a_refused_combination_names_titles_and_its_fields(answer, form):
    form["sides"]["A"]["train.loss.supcon.weight"] = 0.3
    (note,) = answer("train-check", {"form": form})["sides"]["A"]["notes"]
    assert (note["refused"], note["keys"]) == (True, ["train.loss.supcon.weight"])
    assert "“SupCon weight” = 0" in note["text"]
    assert "train.loss" not in note["text"]


def test_an_idle_correction_is_told_with_its_figure_and_its_switch_takes_the_weights_off(answer, form):
    form["sides"]["A"][TAU] = 1
    notes = answer("train-check", {"form": form})["sides"]["A"]["notes"]
    (idle,) = [note for note in notes if "moves no logit" in note["text"]]
    assert TAU in idle["keys"]
    form["sides"]["A"][TAU] = 0
    wanted = {"side": "A", "name": "Long-tail logit adjustment", "on": True}
    reply = answer("train-check", {"form": form, "switch": wanted})
    assert reply["values"]["A"]["train.loss.class_weight.kind"] == "none"
    assert reply["sides"]["A"]["notes"] == []


def test_supcon_on_and_off_leaves_the_form_as_it_was(answer, form):
    before = json.loads(json.dumps(form["sides"]))
    on = answer("train-check", {"form": form, "switch": {"side": "A", "name": "SupCon", "on": True}})
    assert on["values"]["A"]["head.body.kind"] == "mlp"
    form |= {"sides": on["values"], "switched": on["switched"]}
    off = answer("train-check", {"form": form, "switch": {"side": "A", "name": "SupCon", "on": False}})
    assert off["values"] == before


def test_options_that_cannot_be_used_say_why(answer, form):
    form["sides"]["A"]["head.classifier.kind"] = "logreg"
    reply = answer("train-check", {"form": form, "visible": ["train.schedule.epochs", "head.classifier.kind"]})
    assert list(reply["sides"]["A"]["disabled"]) == ["train.schedule.epochs"]
    assert reply["sides"]["B"]["disabled"] == {}


def test_auto_needs_no_settings_of_side_a_and_is_in_the_commands(answer, form, workspace, monkeypatch):
    form["sides"]["A"][LR] = -5
    asked = {"form": form, "auto": True, "sides": ["A", "B"]}
    assert answer("train-check", asked)["sides"]["A"]["errors"] == {}
    plan = answer("train-plan", asked)
    assert (plan["sides"]["A"]["found"], plan["problems"]) == (None, [])
    assert "--preset auto" in plan["commands"]
    monkeypatch.setattr("frostbench.app.jobs.queue.start", lambda *_: None)
    started = answer("train-start", asked | {"sides": ["A"]})["jobs"]
    assert jobs.read(workspace.store, started["A"]).bench["preset"] == "auto"


def test_a_plugin_that_was_not_named_at_start_is_not_executed(answer, form, tmp_path):
    ran, plugin = tmp_path / "ran", tmp_path / "mine.py"
    plugin.write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    form["sides"]["B"] |= {"train.loss.point.kind": "external", "train.loss.point<external>.file": str(plugin)}
    asked = {"form": form, "sides": ["B"]}
    (problem,) = answer("train-plan", asked)["problems"]
    assert "Plugins execute code" in problem
    for name in ("train-estimate", "train-start"):
        with pytest.raises(ValueError, match="Plugins execute code"):
            answer(name, asked)
    assert not ran.exists()


def test_jobs_are_listed_in_words_and_cancelled(answer, form, monkeypatch):
    monkeypatch.setattr("frostbench.app.jobs.queue.start", lambda *_: None)
    assert answer("train-jobs") == {"jobs": [], "omitted": 0}
    started = answer("train-start", {"form": form, "sides": ["A", "B"]})["jobs"]
    listed = {job["id"]: job for job in answer("train-jobs")["jobs"]}
    assert set(listed) == set(started.values())
    job = listed[started["B"]]
    assert (job["state"], job["preset"], job["seeds"], job["cancellable"]) == ("queued", "full", [0, 1, 2], True)
    after = answer("train-cancel", {"job": started["B"]})
    assert {job["id"]: job["state"] for job in after["jobs"]}[started["B"]] == "cancelled"


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("train-check", None),
        ("train-check", {"form": {}}),
        ("train-plan", {"sides": ["A"]}),
        ("train-cancel", {}),
        ("train-cancel", {"job": "../x"}),
        ("train-settings", {"jobs": [1]}),
        ("train-data", {"cache": "/etc"}),
    ],
)
def test_malformed_requests_are_refused(answer, name, request_):
    with pytest.raises(ValueError, match=r"Reload the page|Choose a job"):
        answer(name, request_)


def test_other_sides_and_switches_are_refused(answer, form):
    with pytest.raises(ValueError, match="sides to train"):
        answer("train-plan", {"form": form, "sides": ["C"]})
    with pytest.raises(ValueError, match="A switch must be one of"):
        answer("train-check", {"form": form, "switch": {"side": "A", "name": "none", "on": True}})


@pytest.mark.slow
def test_runs_are_found_without_a_worker_once_they_are_trained(answer, form, workspace):
    from frostbench.app.workbench.train.checking import read_sent
    from frostbench.app.workbench.train.launching import bench_of
    from frostbench.benchmarks.runs.runner import run_bench
    from frostbench.benchmarks.settings.parsing import parse
    from frostbench.benchmarks.settings.plan import BenchSpec

    form["sides"]["A"] |= {"train.schedule.epochs": 3, "train.schedule.min_steps": 0}
    form["seeds"] = 2
    asked = {"form": form, "sides": ["A"]}
    seconds = answer("train-estimate", asked)["A"]["seconds"]
    assert 0 < seconds < 60
    list(run_bench(parse(BenchSpec, bench_of(read_sent(asked), "A", workspace))))
    assert answer("train-plan", asked)["sides"]["A"] == {"runs": 2, "found": 2, "unknown": ""}
    assert answer("train-estimate", asked)["A"]["seconds"] == 0
    started = answer("train-start", asked)["jobs"]
    (job,) = answer("train-jobs")["jobs"]
    assert (job["state"], job["has_runs"]) == ("done", True)
    found = answer("train-settings", {"jobs": [started["A"]]})
    (setting,) = found["settings"].values()
    assert (found["store"], len(setting["id"])) == (str(Path(workspace.store)), 12)


def test_corrections_beside_the_cache_are_used_when_asked(cache, tmp_path, monkeypatch):
    own = shutil.copytree(cache, tmp_path / "own")
    workspace = Workspace(tmp_path, (own,), tmp_path / "results")
    answers = train_answers(workspace)
    form = json.loads(json.dumps(first_form(workspace)))
    table = read_table(own, stored=True)
    asked = {"form": form, "auto": False, "sides": ["A"]}
    assert answers["train-data"]({"cache": str(own)})["corrections"] == 0
    plain = answers["train-plan"](asked | {"corrected": True})["commands"]
    assert "labels" not in plain
    add_corrections(labels_file(own), [Correction(str(table.ids[0]), table.class_names[table.labels[0]], "oak")])
    assert answers["train-data"]({"cache": str(own)})["corrections"] == 1
    assert answers["train-plan"](asked)["commands"] == plain
    assert f"file: {labels_file(own)}" in answers["train-plan"](asked | {"corrected": True})["commands"]
    auto = answers["train-plan"](asked | {"corrected": True, "auto": True})["commands"]
    assert f"--labels {labels_file(own)}" in auto
    monkeypatch.setattr("frostbench.app.jobs.queue.start", lambda *_: None)
    started = answers["train-start"](asked | {"corrected": True})["jobs"]["A"]
    assert jobs.read(workspace.store, started).bench["labels"] == {"file": str(labels_file(own))}
    (listed,) = answers["train-jobs"](None)["jobs"]
    assert {"title": "Label corrections", "path": "labels.file", "value": str(labels_file(own))} in listed["changes"]
    answers["train-cancel"]({"job": started})
    labels_file(own).write_text("no,such,columns\n")
    told = answers["train-data"]({"cache": str(own)})
    assert told["corrections"] == 0
    assert "Its checked labels cannot be read: A file of label corrections" in told["about"]
