"""Pairs of runs whose classes are named by an attacker."""

from dataclasses import replace

from pydantic import TypeAdapter

from frostbench.benchmarks.comparison.ab import pair
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import read_record, run_folder
from frostbench.benchmarks.speed.fake_runs import write_fake_runs

HOSTILE = "<img src=x onerror=alert(1)>"
QUOTES = "\"'><script>alert(2)</script>\x00\u202e"


def made(folder, classes):
    keys = write_fake_runs(folder, rows=60 * classes, classes=classes)
    for key in keys:
        record = read_record(folder, key)
        names = (HOSTILE, QUOTES, *record.data.class_names[2:])
        data = replace(record.data, class_names=names, cache=HOSTILE, columns=(QUOTES,), warnings=(HOSTILE,))
        (run_folder(folder, key) / "record.json").write_bytes(
            TypeAdapter(RunRecord).dump_json(replace(record, data=data))
        )
    return pair(folder, keys[:1], keys[1:], resamples=200)


def with_line(found, metric="macro_f1_fg", **values):
    """The pair with other figures in B's line of a metric."""
    table = found.comparison.table.copy()
    chosen = (table["row"] == "B") & (table["metric"] == metric)
    for name, value in values.items():
        table.loc[chosen, name] = value
    return replace(found, comparison=replace(found.comparison, table=table))
