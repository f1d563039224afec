"""What stays on the terminal of a bench that is run: caches, notes, a line for each run or setting, the winners."""

from dataclasses import dataclass, field

from frostbench.app.progress import note
from frostbench.benchmarks.comparison.tables import aligned
from frostbench.benchmarks.runs.events import (
    BenchEvent,
    CacheOpened,
    RowStarted,
    RunDone,
    RunFailed,
    RunNoted,
    RunSkipped,
)
from frostbench.benchmarks.runs.record import RunRecord, notes_by_seed
from frostbench.benchmarks.runs.tuning import NAMES, Tuned, chosen_rows
from frostbench.benchmarks.settings.plan import BenchSpec, expand

ODD = {"not_converged": "DID NOT CONVERGE", "diverged": "DIVERGED, the best epoch before is kept"}
"""Endings that should make one look twice."""


SHOWN = 5
"""Rows that are named before a note."""


@dataclass
class Printer:
    """Prints the events of a bench, those of a tuned one setting by setting."""

    bench: BenchSpec
    waiting: dict[str, list[str]] = field(default_factory=dict)
    """Notes on rows that have started, with the rows that each is about."""
    said: set[str] = field(default_factory=set)
    """Notes on runs that were printed; a tuned bench has each once for a row, and not for each of its settings."""
    ended: dict[tuple[str, str], list[RunDone | RunFailed | RunSkipped]] = field(default_factory=dict)
    """How the runs of a setting ended, by cache and row."""

    def __post_init__(self) -> None:
        self.rows = {row.name: row.row for row in expand(self.bench)} if self.bench.tune else {}

    def show(self, event: BenchEvent) -> None:
        """Print what is to stay of an event; a note on several rows is one line, as soon as all have started."""
        if not isinstance(event, RowStarted | RunSkipped):
            self._note_rows()
        if isinstance(event, CacheOpened):
            print(f"{event.cache}: " + ", ".join(f"{role} {rows}" for role, rows in event.rows.items()))
            for warning in event.warnings:
                note(warning)
        elif isinstance(event, RowStarted):
            for warning in event.warnings:
                rows, row = self.waiting.setdefault(warning, []), self.rows.get(event.row, event.row)
                rows += [] if row in rows else [row]
        elif isinstance(event, RunNoted):
            self._note_once(f"{event.row}, seed {event.seed}: {event.message}")
        elif isinstance(event, RunDone | RunFailed | RunSkipped):
            self._run(event)

    def _note_rows(self) -> None:
        for warning, rows in self.waiting.items():
            more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
            note(f"{', '.join(rows[:SHOWN])}{more}: {warning}")
        self.waiting.clear()

    def _note_once(self, text: str) -> None:
        if not self.rows or text not in self.said:
            self.said.add(text)
            note(text)

    def _run(self, event: RunDone | RunFailed | RunSkipped) -> None:
        if not self.rows:
            line = failed(event) if isinstance(event, RunFailed) else told(event) if isinstance(event, RunDone) else ""
        else:
            runs = self.ended.setdefault((event.cache, event.row), [])
            runs.append(event)
            line = line_of_setting(runs) if len(runs) == len(self.bench.seeds) else ""
        if line:
            print(line)


def failed(event: RunFailed) -> str:
    """One line about a run that gave no head."""
    return f"  {event.row}, seed {event.seed}: FAILED, {event.message}"


def told(event: RunDone) -> str:
    """One line about a finished run, with what should make one look twice."""
    record = event.record
    line = f"  {event.row}, seed {record.seed}: macro F1 {shown(record.selection_value)}"
    if record.members:
        return f"{line} (mean of {len(record.members)} heads)"
    how = f"epoch {record.epoch}" if record.gradient_norm is None else f"gradient {record.gradient_norm:.1e}"
    odd = f"; {ODD[record.reason]}" if record.reason in ODD else ""
    took = f"{record.seconds:.1f} s" + (f" for {record.together} heads together" if record.together > 1 else "")
    return "\n".join([f"{line} ({how}, {took}{odd})", *(f"    note: {said}" for said in record.notes)])


def line_of_setting(runs: list[RunDone | RunFailed | RunSkipped]) -> str:
    """One line about a setting whose runs have all ended; empty where all were found in the store."""
    records = [run.record for run in runs if isinstance(run, RunDone)]
    failures = [run for run in runs if isinstance(run, RunFailed)]
    if not records and not failures:
        return ""
    values = [record.selection_value for record in records if record.selection_value is not None]
    mean = shown(sum(values) / len(values)) if values else "none"
    found = len(runs) - len(records) - len(failures)
    parts = [f"macro F1 {mean}" + (f", mean of {len(values)} seeds" if len(values) > 1 else "")] if records else []
    parts += [f"{found} more found"] if found else []
    for reason, words in ODD.items():
        odd = [str(record.seed) for record in records if record.reason == reason]
        parts += [f"seed {', '.join(odd)} {words}"] if odd else []
    parts += [f"seed {run.seed} FAILED, {run.message}" for run in failures]
    parts += notes_by_seed(records)
    return f"  {runs[0].row}: {'; '.join(parts)}"


MAIN = {"macro_f1_fg": "macro F1", "accuracy": "accuracy", "nll": "NLL", "ece": "ECE"}
"""The metrics that a newcomer is told, in words; the others stand in the record."""


def metrics_line(record: RunRecord) -> str | None:
    """One line with the main metrics of the selection rows; None where the split has none."""
    found = record.evaluations.get("select")
    if found is None:
        return None
    figures = ", ".join(f"{words} {shown(found.metrics[name])}" for name, words in MAIN.items())
    rows = f"{sum(found.per_class['support']):.0f} {'held-out' if record.data.folds else 'selection'} rows"
    return (
        f"on {rows}: {figures}; the test rows are left unseen" if record.data.rows["test"] else f"on {rows}: {figures}"
    )


def shown(value: float | None) -> str:
    """A figure; none where there is no such."""
    return "none" if value is None else f"{value:.4f}"


def print_winners(bench: BenchSpec) -> None:
    """Print which setting won in each row, for each cache.

    Raises:
        StoreError: none of a row's settings can win.
    """
    for part in chosen_rows(bench):
        print(f"\nwinners on {part.cache}, by validation {NAMES[bench.tune_by]}, mean of {len(bench.seeds)} seeds")
        print(winners(part.tuned, NAMES[bench.tune_by]))


def winners(tuned: dict[str, Tuned], metric: str = "macro F1") -> str:
    """A table: row, settings tried, validation value, the winner, and whether it lies at the edge of its values."""
    figures = [["row", "settings", metric]]
    figures += [[name, str(len(one.tried)), shown(one.winner.value)] for name, one in tuned.items()]
    words = [("winner", "at the edge of its values")]
    words += [(one.winner.name or "nothing to tune", "; ".join(one.edges)) for one in tuned.values()]
    width = max(len(winner) for winner, _ in words)
    table = zip(aligned(figures).splitlines(), words, strict=True)
    return "\n".join(f"{line}  {winner.ljust(width)}  {edge}".rstrip() for line, (winner, edge) in table)
