"""What a reader must know of a comparison of tuned rows."""

from collections.abc import Mapping

from frostbench.benchmarks.runs.tuning import NAMES, Tuned

SETTLED = "the test rows at the end settle it"
SHOWN = 10
"""Settings without a value that one note lists."""


def notes_on_tuning(tuned: Mapping[str, Tuned], seeds: int, *, is_select: bool) -> list[str]:
    """Notes on the budget, the winners, ties, edges and what could not win; none where no row had a choice.

    Args:
        tuned: what became of the settings of each row.
        seeds: of every setting.
        is_select: whether the comparison is on the rows that chose the settings.
    """
    most = max((len(one.tried) for one in tuned.values()), default=0)
    if most < 2:
        return []
    by = next(one.by for one in tuned.values())
    mean = f", mean of {seeds} seeds" if seeds > 1 else ""
    notes = [f"Each row is the best of {most} settings by validation {NAMES[by]}{mean}. " + _winners(tuned)]
    fewer = [f"{name!r} ({len(one.tried)} against {most})" for name, one in tuned.items() if len(one.tried) < most]
    if fewer:
        notes.append(f"These rows had fewer settings to choose from: {', '.join(fewer)}.")
    tied = [repr(name) for name, one in tuned.items() if one.is_tied]
    if tied:
        notes.append(
            f"All settings of these rows are equally good, so the first listed stands for them, and what they change "
            f"may have no effect: {', '.join(tied)}."
        )
    ends = [f"{name!r} {edge}" for name, one in tuned.items() for edge in one.edges]
    if ends:
        notes.append(f"Won at the edge of the values tried, so a better one may lie beyond: {'; '.join(ends)}.")
    failed = [f"{name} @ {t.name} ({t.problem})" for name, one in tuned.items() for t in one.tried if t.problem]
    if failed:
        more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        notes.append(f"Settings that could not win: {len(failed)}: {'; '.join(failed[:SHOWN])}{more}.")
    if is_select:
        notes.append(
            "The figures are on the very validation rows that chose the settings, so they are optimistic, the more so "
            f"the more settings a row had: {SETTLED}."
        )
    return notes


def _winners(tuned: Mapping[str, Tuned]) -> str:
    won = [(name, one.winner) for name, one in tuned.items() if one.was_chosen]
    return f"Won: {'; '.join(f'{name!r} with {setting.name} ({setting.value:.4f})' for name, setting in won)}."
