"""Presets, switches, differences, disabled options, and the equivalent commands."""

import random
import subprocess

import pytest
import yaml

from frostbench.app.command_lines import both, command_lines, run_of
from frostbench.app.forms import values_of
from frostbench.app.rows import other_values
from frostbench.app.sides import (
    ROWS,
    bench_of,
    changed_rows,
    changes,
    differences,
    disabled,
    matching_rules,
    nearest_preset,
    preset_spec,
    switches,
    undo_changes,
    value_at,
    with_preset,
    with_switch,
)
from frostbench.app.sides import run_of as run_of_side
from frostbench.benchmarks.settings.parsing import merge, parse, preset, preset_names, with_changes
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.heads.head import Closed
from frostbench.training.checks.conflicts import check
from frostbench.training.run import RunSpec

NAMES = ["Long-tail logit adjustment", "Feature augmentation", "Manifold mixup", "SupCon", "cRT"]


def random_values(seed: int):
    """Return a side after a few random changes, as by clicks."""
    chance = random.Random(seed)
    values = with_preset({}, chance.choice(preset_names()))
    for row in chance.sample(ROWS, 12):
        if row.control in ("choice", "flag", "number"):
            values[row.key] = chance.choice(other_values(row, values[row.key]))
    return values


@pytest.mark.parametrize("seed", range(30))
def test_the_bench_of_a_side_trains_the_displayed_run(seed):
    run = run_of_side(random_values(seed))
    bench = parse(BenchSpec, bench_of("cache", run, (0, 1), "results", {}, "A"))
    try:
        check(run)
    except ValueError:
        with pytest.raises(ValueError, match="Incompatible options"):
            expand(bench)
        return
    (row,) = expand(bench)
    assert row.specs == tuple(run.model_copy(update={"seed": s}) for s in (0, 1))


@pytest.mark.parametrize("seed", range(30))
def test_changes_turn_one_run_into_the_other(seed):
    start, end = run_of_side(random_values(seed)), run_of_side(random_values(seed + 100))
    found = changes(start, end)
    assert parse(RunSpec, with_changes(start.model_dump(mode="json"), found)) == end
    assert changes(end, end) == {}


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_sets_a_side_and_is_recognised(name):
    values = with_preset({"columns": ["cls"], "background": ["sky"]}, name)
    assert nearest_preset(run_of_side(values)) == (name, True)
    assert (values["columns"], values["background"]) == (["cls"], ["sky"])
    changed = values | {"train.schedule.epochs": 7}
    assert nearest_preset(run_of_side(changed)) == (name, False)


def test_the_switches_have_their_names_and_are_off_in_plain():
    assert [switch.name for switch in switches()] == NAMES
    assert not any(switch.is_on(preset_spec("plain")) for switch in switches())
    assert not any(switch.is_on(RunSpec()) for switch in switches())


CLOSED_FORM = [name for name in preset_names() if isinstance(preset_spec(name).head.classifier, Closed)]
GRADIENT = [name for name in preset_names() if name not in CLOSED_FORM]


@pytest.mark.parametrize("switch", switches(), ids=lambda s: s.name)
@pytest.mark.parametrize("name", GRADIENT)
def test_a_switch_sets_recommended_values_and_clears_them(switch, name):
    start = with_preset({}, name)
    on = with_switch(start, switch, True)
    run = run_of_side(on)
    check(run)
    assert switch.is_on(run)
    assert {path: value_at(run, path) for path in switch.sets} == dict(switch.sets)
    off = with_switch(on, switch, False)
    assert not switch.is_on(run_of_side(off))
    # A preset may have the method itself.
    left = {d.row.path for d in differences(with_switch(start, switch, False), off)}
    assert left <= {*switch.needs, *switch.instead} | {path.replace(".kind", "") for path in switch.needs}
    assert start | undo_changes(on, changed_rows(start, on)) == start


@pytest.mark.parametrize("switch", [s for s in switches() if s.needs], ids=lambda s: s.name)
@pytest.mark.parametrize("name", CLOSED_FORM)
def test_a_switch_that_needs_a_body_is_refused_with_a_closed_form_head(switch, name):
    on = with_switch(with_preset({}, name), switch, True)
    with pytest.raises(ValueError, match="a body in front of it would stay untrained"):
        check(run_of_side(on))


def test_disabled_options_have_a_reason():
    values = with_preset({}, "plain") | {"head.classifier.kind": "logreg"}
    found = disabled(values)
    assert "a body in front of it would stay untrained" in found["head.body.kind"]
    assert "logreg have no batches" in found["train.loss.hardmine.keep"]
    assert "train.schedule have no effect" in found["train.schedule.epochs"]
    assert "head.classifier<logreg>.c" not in found
    assert "train.loss.class_weight.kind" not in found


def test_options_of_a_method_are_disabled_until_it_is_on():
    values = with_preset({}, "plain")
    assert "logit_adjustment.tau=0 turns logit adjustment off" in disabled(values)["train.loss.logit_adjustment.prior"]
    assert "train.loss.logit_adjustment.prior" not in disabled(values | {"train.loss.logit_adjustment.tau": 1.0})


def test_differences_include_changed_options_of_only_one_side():
    a, b = with_preset({}, "plain"), with_preset({}, "plain") | {"head.body.kind": "mlp"}
    assert [(d.row.path, d.a, d.b) for d in differences(a, b)] == [("head.body.kind", "identity", "mlp")]
    b["head.body<mlp>.dropout"] = 0.5
    assert [(d.row.path, d.a, d.b) for d in differences(a, b)][1] == ("head.body.dropout", None, 0.5)


@pytest.mark.parametrize("seed", range(20))
def test_the_commands_train_the_same_runs(seed, tmp_path):
    sides = [run_of_side(random_values(s)) for s in (seed, seed + 50)]
    a, b = (bench_of("cache", run, (0, 1), "results", {"seed": 7}, n) for run, n in zip(sides, "AB", strict=True))
    tree = yaml.safe_load(_written(command_lines(a, b), tmp_path)["ab.yaml"])
    bench = parse(BenchSpec, tree)
    assert bench.split.seed == 7
    assert [run_of(a), run_of(b)] == sides
    base = with_changes(merge(RunSpec().model_dump(mode="json"), preset(bench.preset)), bench.base)
    assert parse(RunSpec, base) == sides[0]
    if any(matching_rules(run, ("refuse",)) for run in sides):
        with pytest.raises(ValueError, match="Incompatible options"):
            expand(bench)
        return
    rows = expand(bench)
    assert [row.specs[1] for row in rows] == [run.model_copy(update={"seed": 1}) for run in sides]


def test_sides_on_different_caches_get_separate_benches(tmp_path):
    run = preset_spec("plain")
    a, b = (bench_of(cache, run, (0,), "results", {}, n) for cache, n in (("one", "A"), ("two's", "B")))
    lines = command_lines(a, b)
    files = _written(lines, tmp_path)
    assert [yaml.safe_load(files[name])["caches"] for name in ("a.yaml", "b.yaml")] == [["one"], ["two's"]]
    assert lines.endswith("frostbench bench run a.yaml\nfrostbench bench run b.yaml\n")


def test_one_bench_holds_both_where_b_has_the_preset_of_a():
    a, b = (
        bench_of("c", parse(RunSpec, preset("full"), [f"train.optim.lr={lr}"]), (0,), "r", {}, n)
        for n, lr in (("A", 0.01), ("B", 0.02))
    )
    assert both(a, b)["toggles"] == {"B": {"train.optim.lr": 0.02}}


def _written(lines: str, folder) -> dict[str, str]:
    """Run the part of a script that writes files; return their contents."""
    script = "\n".join(line for line in lines.splitlines() if not line.startswith("frostbench "))
    subprocess.run(["sh", "-c", script], cwd=folder, check=True)
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


def test_values_of_a_side_are_those_of_its_run():
    run = preset_spec("full")
    assert run_of_side(values_of(ROWS, run)) == run
