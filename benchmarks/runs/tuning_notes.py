"""Notes for readers of a comparison of tuned rows."""

from collections.abc import Mapping

from frostbench.benchmarks.runs.tuning import NAMES, Tuned

SETTLED = "compare on the test rows at the end"
SHOWN = 10
"""Maximum number of failed settings listed in a note."""


def notes_on_tuning(tuned: Mapping[str, Tuned], seeds: int, *, is_select: bool) -> list[str]:
    """Return notes on the budget, the winners, ties, edges and failed settings, or [] if no row had a choice.

    Args:
        tuned: settings and winner of each row.
        seeds: number of seeds of every setting.
        is_select: whether the comparison is on the validation rows, which chose the settings.
    """
    most = max((len(row.tried) for row in tuned.values()), default=0)
    if most < 2:
        return []
    by = next(row.by for row in tuned.values())
    mean = f", averaged over {seeds} seeds" if seeds > 1 else ""
    notes = [f"Each row is the best of {most} settings by validation {NAMES[by]}{mean}. " + _winners(tuned)]
    fewer = [f"{name!r} ({len(row.tried)} instead of {most})" for name, row in tuned.items() if len(row.tried) < most]
    if fewer:
        notes.append(f"These rows had fewer settings to choose from: {', '.join(fewer)}.")
    tied = [repr(name) for name, row in tuned.items() if row.is_tied]
    if tied:
        notes.append(
            f"All settings of {', '.join(tied)} perform equally, so the first one listed is used, and the options that "
            "they change may have no effect."
        )
    ends = [f"{name!r} {edge}" for name, row in tuned.items() for edge in row.edges]
    if ends:
        notes.append(
            f"Winners at the edge of the values tried, where a better value may lie beyond: {'; '.join(ends)}."
        )
    failed = [f"{name} @ {t.name} ({t.problem})" for name, row in tuned.items() for t in row.tried if t.problem]
    if failed:
        more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        notes.append(f"Settings that could not win ({len(failed)}): {'; '.join(failed[:SHOWN])}{more}.")
    if is_select:
        notes.append(
            "These metrics are on the validation rows that also chose the settings, so they are optimistic, and more "
            f"so for rows with more settings. To avoid this bias, {SETTLED}."
        )
    return notes


def _winners(tuned: Mapping[str, Tuned]) -> str:
    winners = [(name, row.winner) for name, row in tuned.items() if row.was_chosen]
    return f"Winners: {'; '.join(f'{name!r} with {setting.name} ({setting.value:.4f})' for name, setting in winners)}."
