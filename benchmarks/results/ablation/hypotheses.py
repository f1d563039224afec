"""Judges the claims of docs/results/hypotheses.yaml and generates hypotheses.md below its hand-written part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from frostbench.benchmarks.comparison.deltas import BETTER, WORSE
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.results.ablation.pages import MARKER, TITLES
from frostbench.benchmarks.results.ablation.running import LeftOut, compared
from frostbench.benchmarks.results.ablation.tables import frame_of, path_of, save
from frostbench.benchmarks.results.markdown import table_head, table_line, write_below
from frostbench.benchmarks.settings.parsing import load_yaml

NAME = "hypotheses"


@dataclass(frozen=True)
class Finding:
    """What was found about a metric of a hypothesis.

    Attributes:
        verdict: confirmed, contradicted, mixed, not seen, cannot be told, not run or not testable.
        trials: number of trials.
        better: number of trials on which the row is better beyond doubt.
        worse: number of trials on which it is worse beyond doubt.
        delta: mean difference over the trials, positive if the row is better.
        smallest: smallest difference that one of the trials could have shown: half the width of its interval.
    """

    verdict: str
    trials: int = 0
    better: int = 0
    worse: int = 0
    delta: float = 0.0
    smallest: float = 0.0


def judge(lines: pd.DataFrame, metric: str, worthwhile: float) -> Finding:
    """Apply the rule of hypotheses.yaml to the lines of one row and metric, one line per trial.

    Args:
        lines: columns delta, low, high and verdict.
        metric: the metric.
        worthwhile: difference that would be worth having, of either sign.
    """
    if lines.empty:
        return Finding("not run")
    sign = 1 if HIGHER_IS_BETTER[metric] else -1
    gain = sign * lines["delta"]
    best = lines["high"] if sign > 0 else -lines["low"]
    better, worse = (int((lines["verdict"] == verdict).sum()) for verdict in (BETTER, WORSE))
    mean = float(gain.mean())
    if better and worse:
        verdict = "mixed"
    elif better and mean > 0:
        verdict = "confirmed"
    elif worse and mean < 0:
        verdict = "contradicted"
    elif (best < abs(worthwhile)).all():
        verdict = "not seen"
    else:
        verdict = "cannot be told"
    smallest = float(((lines["high"] - lines["low"]) / 2).min())
    return Finding(verdict, len(lines), better, worse, mean, smallest)


def regenerate(work: Path, out: Path) -> Iterator[str]:
    """Judge every hypothesis on the finished runs and the kept tables, write the page, and yield progress."""
    stated = load_yaml(out / "hypotheses.yaml")
    names = ["bench", "metric", "verdict", "mean gain", "better / worse / trials", "visible from"]
    lines = [*table_head("claim", names)]
    details: list[str] = []
    frames: dict[tuple[str, str], pd.DataFrame] = {}
    for one in stated["hypotheses"]:
        if "not_testable" in one:
            lines.append(table_line([one["claim"], "", "", f"not testable: {one['not_testable']}", "", "", ""]))
        for test in one.get("tests", ()):
            key = (test["bench"], test["against"])
            if key not in frames:
                frames[key] = tables_against(*key, work, out)
            lines += _lines(one, test, frames[key], stated["worthwhile"])
            details += _details(one, test, frames[key])
        yield f"judged {one['id']}"
    yield f"wrote {write_below(out / f'{NAME}.md', MARKER.format(NAME), 'Hypotheses', [*lines, '', *details])}"


def tables_against(bench: str, against: str, work: Path, out: Path) -> pd.DataFrame:
    """Return the results of a bench with `against` as baseline, of all trials that have any.

    Trials whose runs are in `work` are compared again and their tables kept in `out`; of the others the kept tables
    are read.
    """
    frames = []
    for found in compared(bench, work, against):
        if isinstance(found, LeftOut):
            kept = (path_of(found.trial, out), path_of(found.trial, out, against))
            frames += [one for one in map(pd.read_csv, filter(Path.is_file, kept)) if one["baseline"][0] == against]
            continue
        trial, comparison = found
        frames.append(frame_of(trial, comparison))
        if not _is_baseline(against, path_of(trial, out)):
            save(frames[-1], path_of(trial, out, against))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _is_baseline(row: str, table: Path) -> bool:
    return table.is_file() and pd.read_csv(table)["baseline"][0] == row


def _of(frame: pd.DataFrame, row: str, metric: str) -> pd.DataFrame:
    if frame.empty:
        return frame
    return frame[(frame["row"] == row) & (frame["metric"] == metric) & frame["delta"].notna()]


def _lines(
    one: Mapping[str, Any], test: Mapping[str, Any], frame: pd.DataFrame, worthwhile: Mapping[str, float]
) -> list[str]:
    """Return a line per metric of a hypothesis in one bench."""
    lines = []
    for metric in one["metrics"]:
        found = judge(_of(frame, test["row"], metric), metric, worthwhile[metric])
        verdict = found.verdict
        if test.get("largest_among") and found.trials:
            verdict += _largest(test, frame, metric)
        counts = f"{found.better} / {found.worse} / {found.trials}"
        figures = ["", "", ""] if not found.trials else [f"{found.delta:+.4f}", counts, f"{found.smallest:.4f}"]
        lines.append(table_line([one["claim"], f"`{test['bench']}`", TITLES[metric], verdict, *figures]))
    return lines


def _largest(test: Mapping[str, Any], frame: pd.DataFrame, metric: str) -> str:
    """Return which of the rows that the claim names has the largest mean gain, as an addition to the verdict."""
    sign = 1 if HIGHER_IS_BETTER[metric] else -1
    gains = {row: sign * _of(frame, row, metric)["delta"].mean() for row in (test["row"], *test["largest_among"])}
    best = max(gains, key=lambda row: gains[row])
    words = ", ".join(f"{row} {gain:+.4f}" for row, gain in gains.items())
    return f"; largest mean gain: {best} ({words})"


def _details(one: Mapping[str, Any], test: Mapping[str, Any], frame: pd.DataFrame) -> list[str]:
    """Return a table of the differences on each trial."""
    if frame.empty:
        return []
    names = [TITLES[metric] for metric in one["metrics"]]
    lines = [f"## {one['id'].replace('_', ' ').capitalize()}: {test['bench']}", ""]
    lines += [f"{one['claim']} ({one['source']}.) `{test['row']}` less `{test['against']}`, 95 % intervals.", ""]
    lines += table_head("data, backbone", names)
    trials = list(dict.fromkeys(zip(frame["data"], frame["backbone"], strict=True)))
    for data, backbone in trials:
        here = frame[(frame["data"] == data) & (frame["backbone"] == backbone)]
        cells = [_cell(_of(here, test["row"], metric)) for metric in one["metrics"]]
        lines.append(table_line([f"{data}, {backbone}", *cells]))
    return [*lines, ""]


def _cell(lines: pd.DataFrame) -> str:
    if lines.empty:
        return ""
    line: Sequence[Any] = lines[["delta", "low", "high", "verdict"]].iloc[0].tolist()
    mark = " ▲" if line[3] == BETTER else " ▼" if line[3] == WORSE else ""
    return f"{line[0]:+.4f} [{line[1]:+.4f}, {line[2]:+.4f}]{mark}"
