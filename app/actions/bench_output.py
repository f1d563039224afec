"""Terminal output of a bench: caches, notes, one line per run or setting, and the winners."""

from dataclasses import dataclass, field

from frostbench.app.progress import note
from frostbench.benchmarks.comparison.tables import aligned
from frostbench.benchmarks.runs.events import (
    BenchEvent,
    CacheOpened,
    RoundStarted,
    RowStarted,
    RunDone,
    RunFailed,
    RunNoted,
    RunsElsewhere,
    RunSkipped,
)
from frostbench.benchmarks.runs.halving import Round, chosen_by_halving
from frostbench.benchmarks.runs.record import RunRecord, notes_by_seed
from frostbench.benchmarks.runs.tuning import NAMES, Tuned, chosen_rows
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.plan import BenchSpec, expand

ALERTS = {"not_converged": "DID NOT CONVERGE", "diverged": "DIVERGED, kept the best epoch before that"}
"""Text for each reason why a run ended that needs attention."""
MAIN = {"macro_f1_fg": "macro F1", "accuracy": "accuracy", "nll": "NLL", "ece": "ECE"}
"""The metrics that are printed, with their labels; the record holds all metrics."""
NAMED_ROWS = 5
"""Maximum number of rows that a note names; further ones are counted."""
RunEnd = RunDone | RunFailed | RunSkipped


@dataclass
class Printer:
    """Prints the events of a bench; a tuned bench gets one line per setting."""

    bench: BenchSpec
    pending: dict[str, list[str]] = field(default_factory=dict)
    """Warnings not printed yet, each with the names of the rows that it is about."""
    printed: set[tuple[str, str]] = field(default_factory=set)
    """Notes on runs already printed, each with its cache; a tuned bench does not repeat a note."""
    ended: dict[tuple[str, str], list[RunEnd]] = field(default_factory=dict)
    """Events for the ended runs of a tuned bench, by cache and setting."""

    def __post_init__(self) -> None:
        self.rows = {row.name: row.row for row in expand(self.bench)} if self.bench.tune else {}

    def show(self, event: BenchEvent) -> None:
        """Print an event; a warning about several rows is printed as one line once all rows have started."""
        if not isinstance(event, RowStarted | RunSkipped):
            self._print_pending()
        if isinstance(event, RoundStarted):
            print(round_title(event))
        elif isinstance(event, CacheOpened):
            print(f"{event.cache}: " + ", ".join(f"{role} {rows}" for role, rows in event.rows.items()))
            for warning in event.warnings:
                note(warning)
        elif isinstance(event, RowStarted):
            for warning in event.warnings:
                rows, row = self.pending.setdefault(warning, []), self.rows.get(event.row, event.row)
                rows += [] if row in rows else [row]
        elif isinstance(event, RunNoted):
            self._note_once(event)
        elif isinstance(event, RunsElsewhere):
            holders = " and ".join(event.holders) or "another process"
            note(f"waiting for {with_noun(event.runs, 'run')} in training by {holders}")
        elif isinstance(event, RunDone | RunFailed | RunSkipped):
            self._print_run(event)

    def _print_pending(self) -> None:
        for warning, rows in self.pending.items():
            more = f" and {len(rows) - NAMED_ROWS} more" if len(rows) > NAMED_ROWS else ""
            note(f"{', '.join(rows[:NAMED_ROWS])}{more}: {warning}")
        self.pending.clear()

    def _note_once(self, event: RunNoted) -> None:
        text = f"{self.rows.get(event.row, event.row)}, seed {event.seed}: {event.message}"
        if not self.rows or (event.cache, text) not in self.printed:
            self.printed.add((event.cache, text))
            note(text)

    def _print_run(self, event: RunEnd) -> None:
        if not self.rows:
            line = format_run(event)
        else:
            runs = self.ended.setdefault((event.cache, event.row), [])
            runs.append(event)
            line = format_setting(runs) if len(runs) == len(self.bench.seeds) else ""
        if line:
            print(line)


def round_title(part: RoundStarted | Round) -> str:
    """Return one line about a round of successive halving."""
    settings, epochs = with_noun(part.settings, "setting"), with_noun(part.epochs, "epoch")
    return f"round {part.number} of {part.rounds}: {settings}, {epochs}"


def format_run(event: RunEnd) -> str:
    """Return the lines about one run with its notes and alerts; empty for a run that was already in the store."""
    if isinstance(event, RunSkipped):
        return ""
    if isinstance(event, RunFailed):
        return f"  {event.row}, seed {event.seed}: FAILED, {event.message}"
    record = event.record
    line = f"  {event.row}, seed {record.seed}: macro F1 {format_value(record.selection_value)}"
    if record.members:
        return f"{line} (mean of {len(record.members)} heads)"
    how = f"epoch {record.epoch}" if record.gradient_norm is None else f"gradient {record.gradient_norm:.1e}"
    alert = f"; {ALERTS[record.reason]}" if record.reason in ALERTS else ""
    took = f"{record.seconds:.1f} s" + (f" for {record.together} heads together" if record.together > 1 else "")
    return "\n".join([f"{line} ({how}, {took}{alert})", *(f"    note: {text}" for text in record.notes)])


def format_setting(runs: list[RunEnd]) -> str:
    """Return one line about a setting whose runs have all ended; empty if all were already in the store."""
    records = [run.record for run in runs if isinstance(run, RunDone)]
    failures = [run for run in runs if isinstance(run, RunFailed)]
    if not records and not failures:
        return ""
    values = [record.selection_value for record in records if record.selection_value is not None]
    mean = format_value(sum(values) / len(values)) if values else "none"
    stored = len(runs) - len(records) - len(failures)
    parts = [f"macro F1 {mean}" + (f", mean of {len(values)} seeds" if len(values) > 1 else "")] if records else []
    parts += [f"{stored} more found in the store"] if stored else []
    for reason, text in ALERTS.items():
        seeds = [str(record.seed) for record in records if record.reason == reason]
        parts += [f"seed {', '.join(seeds)} {text}"] if seeds else []
    parts += [f"seed {run.seed} FAILED, {run.message}" for run in failures]
    parts += notes_by_seed(records)
    return f"  {runs[0].row}: {'; '.join(parts)}"


def metrics_line(record: RunRecord) -> str | None:
    """Return one line with the main validation metrics, or None if the split has no validation rows."""
    evaluation = record.evaluations.get("select")
    if evaluation is None:
        return None
    values = ", ".join(f"{label} {format_value(evaluation.metrics[name])}" for name, label in MAIN.items())
    role = "held-out" if record.data.folds else "validation"
    rows = with_noun(round(sum(evaluation.per_class["support"])), f"{role} row")
    unused = "; the test rows were not used" if record.data.rows["test"] else ""
    return f"on {rows}: {values}{unused}"


def format_value(value: float | None) -> str:
    """Return a metric value with four decimals, or "none"."""
    return "none" if value is None else f"{value:.4f}"


def print_winners(bench: BenchSpec, rounds: int = 0) -> None:
    """Print the winning setting of each row for each cache; `rounds` is the number of rounds of successive halving.

    Raises:
        StoreError: every setting of a row failed.
    """
    for part in (chosen_by_halving(bench, rounds),) if rounds else chosen_rows(bench):
        mean = f", mean of {len(bench.seeds)} seeds" if len(bench.seeds) > 1 else ""
        print(f"\nwinners on {part.cache}, by validation {NAMES[bench.tune_by]}{mean}")
        print(format_winners(part.tuned, NAMES[bench.tune_by]))


def format_winners(tuned: dict[str, Tuned], metric: str = "macro F1") -> str:
    """Return a table: row, number of settings, validation value, winner, and its options at an edge of the values."""
    figures = [["row", "settings", metric]]
    figures += [[name, str(len(row.tried)), format_value(row.winner.value)] for name, row in tuned.items()]
    texts = [("winner", "at the edge of the values tried")]
    texts += [(row.winner.name or "nothing to tune", "; ".join(row.edges)) for row in tuned.values()]
    width = max(len(winner) for winner, _ in texts)
    table = zip(aligned(figures).splitlines(), texts, strict=True)
    return "\n".join(f"{line}  {winner.ljust(width)}  {edge}".rstrip() for line, (winner, edge) in table)
