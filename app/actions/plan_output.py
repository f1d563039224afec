"""Terminal output of a dry run."""

from frostbench.benchmarks.comparison.tables import aligned
from frostbench.benchmarks.runs.dry_run import CachePlan
from frostbench.training.engine.memory import gigabytes

NAMED_ROWS = 3
"""Number of rows that are named in a line of the table."""


def format_plan(plan: CachePlan) -> str:
    """Return the plan of one cache as text: its rows, its runs, and a table of the stacks to train."""
    lines = [f"{plan.cache}: " + ", ".join(f"{role} {rows}" for role, rows in plan.rows.items())]
    missing = plan.runs - plan.found
    stacks = sum(stack.stacks for stack in plan.stacks)
    lines.append(f"{plan.runs} runs: {plan.found} found in the store, {missing} to train in {stacks} stacks")
    if plan.on_disk:
        lines.append(f"vectors stay on disk: {plan.on_disk}")
    if plan.stacks:
        table = [["rows", "stacks", "heads each", "epochs", "memory", "time"]]
        for stack in plan.stacks:
            more = f" and {len(stack.rows) - NAMED_ROWS} more" if len(stack.rows) > NAMED_ROWS else ""
            epochs = f"up to {stack.epochs}" if stack.epochs else "solved"
            cells = [str(stack.stacks), str(stack.heads), epochs, gigabytes(stack.bytes), duration(stack.seconds)]
            table.append([", ".join(stack.rows[:NAMED_ROWS]) + more, *cells])
        lines += [aligned(table), f"time: at most about {duration(plan.seconds)}; less if runs stop early"]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Return a duration in words of two digits.

    >>> [duration(s) for s in (0.4, 42, 600, 9000)]
    ['1 s', '42 s', '10 min', '2.5 h']
    """
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
