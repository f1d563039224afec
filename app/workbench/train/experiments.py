"""Experiments of the tab Train as benches: each change of B alone and all together, and a search around B."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frostbench.app.command_lines import file_command
from frostbench.app.jobs.records import EXPERIMENTS
from frostbench.app.sides import changes, run_of
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.runs.naming import as_text
from frostbench.app.workbench.train.checking import Sent, reasons_not_to_train
from frostbench.app.workbench.train.form import SIDES
from frostbench.app.workbench.train.launching import bench_of, refused_plugins
from frostbench.app.workbench.train.search import MOST_SETTINGS, problems_of, read_search
from frostbench.app.workbench.train.search_points import points_of
from frostbench.app.workbench.train.singles import Single, singles
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.halving import Round, planned_rounds
from frostbench.benchmarks.settings.parsing import Tree, parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.benchmarks.settings.plugins import check_allowed
from frostbench.heads.spec import canonical
from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec

MOST_RUNS = 1000
"""Largest number of runs of an experiment."""
TOGETHER = "all together"


@dataclass(frozen=True)
class Experiment:
    """An experiment that can be trained.

    Attributes:
        kind: one of `EXPERIMENTS`.
        bench: its bench.
        spec: the bench, validated.
        names: name of each setting in words, by the name of its row in the bench, in their order.
        skipped: what is not trained, with the reason.
        rounds: rounds of successive halving; empty if all settings are trained in full.
    """

    kind: str
    bench: Tree
    spec: BenchSpec
    names: Mapping[str, str]
    skipped: tuple[tuple[str, str], ...] = ()
    rounds: tuple[Round, ...] = field(default=())

    @property
    def runs(self) -> int:
        """Number of runs over all rounds."""
        settings = sum(part.settings for part in self.rounds) if self.rounds else len(self.names)
        return settings * len(self.spec.seeds)

    @property
    def commands(self) -> str:
        """Commands that train the same runs, and compare them or export the best of a search."""
        name = f"{self.kind}.yaml"
        halving = f" --halving {len(self.rounds)}" if self.rounds else ""
        then = f"frostbench compare {name}\n"
        if self.kind == "search":
            then = "" if self.rounds else f"frostbench export {name} {self.bench['preset']} --out head\n"
        return f"{file_command(name, self.bench)}frostbench bench run {name}{halving}\n{then}"


def experiment_of(kind: Any, sent: Sent, request: Mapping[str, Any], workspace: Workspace) -> Experiment | list[str]:
    """Return the experiment that a form states, or why it cannot be made.

    Raises:
        RequestError: the request has another form.
        ValueError: a value is not allowed.
    """
    if kind not in EXPERIMENTS:
        raise RequestError(f"An experiment must be one of {list(EXPERIMENTS)}, got {kind!r}. Reload the page.")
    sides = SIDES if kind == "changes" else ("B",)
    if sent.is_auto and kind == "changes":
        return ["What auto chooses for A is not known before training. Choose another preset for A."]
    if problems := reasons_not_to_train(sent, sides, workspace) or refused_plugins(sent, sides, workspace):
        return problems
    try:
        made = _changes(sent, workspace) if kind == "changes" else _search(sent, request, workspace)
    except RequestError:
        raise
    except ValueError as error:
        return [str(error)]
    if isinstance(made, Experiment) and made.runs > MOST_RUNS:
        return [
            f"An experiment may have at most {MOST_RUNS:,} runs, and this one has {made.runs:,}. Train fewer settings "
            "or seeds, or use the command line."
        ]
    return made


def _changes(sent: Sent, workspace: Workspace) -> Experiment | list[str]:
    a, b = (sent.form.sides[side] for side in SIDES)
    if a["cache"] != b["cache"]:
        return ["A and B have different data sets, which cannot be changed one setting at a time. Give both the same."]
    start, end = run_of(a), run_of(b)
    if canonical(start) == canonical(end):
        return ["A and B are equal. Change a setting of B."]
    found = singles(a, b)
    alone = _different([single for single in found if single.run is not None and single.run != end])
    bench = bench_of(sent, "A", workspace) | {"name": "changes"}
    toggles = {single.name: changes(start, single.run) for single in alone if single.run is not None}
    toggles[TOGETHER if alone else found[0].name if len(found) == 1 else TOGETHER] = changes(start, end)
    if len(toggles) >= MOST_SETTINGS:
        return [f"B may differ from A in at most {MOST_SETTINGS - 2} settings, got {len(toggles) - 1}. Take some back."]
    bench["toggles"] = toggles
    # Expanding a bench executes the plugins that it names.
    for single in alone:
        if single.run is not None:
            check_allowed(single.run, workspace.plugins)
    skipped = tuple((single.name, single.reason) for single in found if single.run is None)
    names = {bench["preset"]: "A"} | {name: name for name in toggles}
    return Experiment("changes", bench, parse(BenchSpec, bench), names, skipped)


def _different(found: list[Single]) -> list[Single]:
    """Return changes with different runs and names; options of one title are told apart by their path."""
    kept: dict[str, Single] = {}
    names: dict[str, Single] = {}
    for single in found:
        text = str(canonical(single.run)) if single.run is not None else ""
        if text not in kept:
            name = single.name if single.name not in names else f"{single.name} ({single.keys[0]})"
            kept[text] = names[name] = Single(name, single.keys, single.values, single.run, single.reason)
    return list(kept.values())


def _search(sent: Sent, request: Mapping[str, Any], workspace: Workspace) -> Experiment | list[str]:
    search, values = read_search(request.get("search")), sent.form.sides["B"]
    if problems := problems_of(search, values, workspace):
        return [f"{search.label_of(key)}: {text}" if key else text for key, text in problems.items()]
    found = points_of(search, values)
    bench = bench_of(sent, "B", workspace) | {"name": "search"}
    lists: Tree = {path: [point[path] for point in found.points] for path in found.points[0]}
    grid = {
        path: [value for i, value in enumerate(values) if value not in values[:i]] for path, values in lists.items()
    }
    bench["tune"] = {bench["preset"]: grid if found.is_grid else [dict(point) for point in found.points]}
    spec = parse(BenchSpec, bench)
    if len(found.points) * len(spec.seeds) > MOST_RUNS:
        return [
            f"An experiment may have at most {MOST_RUNS:,} runs, and this one has {len(found.points)} settings with "
            f"{len(spec.seeds)} seeds each. Train fewer settings or seeds, or use the command line."
        ]
    # Expanding a bench executes the plugins that it names.
    for run in found.runs:
        check_allowed(run, workspace.plugins)
    rows = expand(spec)
    rounds = planned_rounds(spec, search.rounds) if search.rounds else ()
    skipped = tuple((f"{number} left out", why) for why, number in found.left_out.items())
    return Experiment("search", bench, spec, {row.name: _in_words(row.changes) for row in rows}, skipped, rounds)


def _in_words(point: Tree) -> str:
    return ", ".join(f"{label_of(RunSpec, path)} {as_text(value)}" for path, value in point.items())
