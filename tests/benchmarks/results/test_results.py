"""Results pages: their benches, their images, and their content."""

import csv
import json
import pickle
import tarfile
from pathlib import Path

import pytest

from frostbench.benchmarks.results import calibration as results
from frostbench.benchmarks.results import page
from frostbench.benchmarks.results.images import Source, _folder, _manifest, embedded
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.parsing import packaged_bench, parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.embedcache.table import read_table

SHORT = {"train.schedule.epochs": 3, "train.schedule.min_steps": 0, "train.schedule.batch_size": 32}
MLP = {"head.body.kind": "mlp", "head.body.hidden": [8]}


@pytest.mark.parametrize("head", [*results.HEADS, results.EXPERIMENTAL])
def test_every_row_has_eight_settings_and_all_seeds(head):
    rows = expand(parse(BenchSpec, packaged_bench(f"calibration_{head}")))
    counts = {row.row: sum(other.row == row.row for other in rows) for row in rows}
    assert set(counts.values()) == {8}
    assert {len(row.specs) for row in rows} == {5}


def test_controls_stand_beside_the_methods():
    rows = {row.row for row in expand(parse(BenchSpec, packaged_bench("calibration_mlp")))}
    gates = {f"fedlas_ls {name}" for name in ("mean share", "gate +1", "gate -1", "random gate")}
    assert {"plain", "label smoothing", "mbls", "vace", "vace row decay", "fedlas_ls", "fedlas_mbls"} | gates <= rows


def test_every_head_meets_every_cache(tmp_path):
    places = [(head, Path(bench.caches[0]).name) for head, bench in results.benches_of(tmp_path)]
    names = [f"{source}-{size}" for source in ("coins", "blood_cells", "grocery") for size in ("lite0", "lite2")]
    assert [p for p in places if p[0] != "experimental"] == [(h, n) for n in names for h in ("linear", "mlp")]
    assert places[-1] == ("experimental", "coins-lite0")


def test_parts_are_taken_by_name_in_the_order_of_the_names(tmp_path):
    names = ["mlp/grocery-lite2", "linear/coins-lite0"]
    found = results.chosen_benches(tmp_path, names)
    assert [f"{head}/{Path(bench.caches[0]).name}" for head, bench in found] == names
    assert len(results.chosen_benches(tmp_path, None)) == 13
    with pytest.raises(ValueError, match=r"A part must be one of linear/coins-lite0, .* got mlp/lions"):
        results.chosen_benches(tmp_path, ["mlp/lions"])


def images(folder, groups=6):
    folder.mkdir(parents=True)
    with (folder / "manifest.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "group"])
        writer.writerows([f"{g}/{i}.jpg", "a", f"smear {g}"] for g in range(groups) for i in range(2))


def test_images_come_from_a_folder_or_a_tar_and_groups_are_drawn_once_for_all(tmp_path):
    images(tmp_path / "made" / "cells")
    (tmp_path / "data").mkdir()
    with tarfile.open(tmp_path / "data" / "cells.tar", "w") as tar:
        tar.add(tmp_path / "made" / "cells", "cells")
    packed, source = tmp_path / "data", Source("cells", 3)
    # What an unpacking that was cut off left is unpacked anew.
    cut_off = tmp_path / "work" / "images" / "cells.partial" / "cells"
    cut_off.mkdir(parents=True)
    (cut_off / "manifest.csv").write_text("half of it")
    assert _folder(packed, tmp_path / "work", source) == tmp_path / "work" / "images" / "cells"
    assert [path.name for path in (tmp_path / "work" / "images").iterdir()] == ["cells"]
    assert _folder(tmp_path / "made", tmp_path / "work", source) == tmp_path / "made" / "cells"
    first = _manifest(packed, tmp_path / "work", source).read_text().splitlines()
    assert _manifest(packed, tmp_path / "work", source).read_text().splitlines() == first
    # random.Random(0).sample of six places takes these.
    assert sorted({line.split(",")[2] for line in first[1:]}) == ["smear 0", "smear 3", "smear 5"]
    assert len(first) == 7


def test_missing_images_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"The images of coins must be a folder with manifest.csv or a tar of it, but"):
        list(embedded(tmp_path, tmp_path / "work"))


@pytest.fixture(scope="module")
def part(tmp_path_factory, write_cache):
    folder = tmp_path_factory.mktemp("page")
    write_cache(folder / "cells-lite0")
    fedlas = MLP | {"train.loss.fedlas.alpha": 0.1}
    running = {"train.loss.vace.strength": 0.5, "train.loss.vace.scatter": "input_ema"}
    bench = BenchSpec(
        caches=(str(folder / "cells-lite0"),),
        store=str(folder / "store"),
        preset="plain",
        base=SHORT,
        toggles={"fedlas_ls": fedlas, "vace": {"train.loss.vace.strength": 0.5}, "vace batch scatter": running},
        seeds=(0, 1),
    )
    list(run_bench(bench))
    return results._part("linear", bench, folder)


def test_a_part_travels_between_processes(part):
    again = pickle.loads(pickle.dumps(part))
    assert again.report.rows == part.report.rows
    assert again.report.table.equals(part.report.table)
    assert again.bench == part.bench


def test_the_page_keeps_what_stands_above_and_shows_every_row(part, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "drawing", lambda: "<svg/>")
    (tmp_path / "calibration.md").write_text(f"# Found\n\nA sentence.\n\n{page.MARKER}\nold\n")
    written = page.write_page([part], tmp_path).read_text()
    assert written.startswith(f"# Found\n\nA sentence.\n\n{page.MARKER}\n")
    assert "old" not in written.split(page.MARKER)[1].splitlines()[0:2]
    lines = written.splitlines()
    table = lines[lines.index("## cells-lite0, linear") :]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table if line.startswith("| ")]
    own = ["plain", "fedlas_ls", "vace", "vace batch scatter"]
    assert rows == ["row", "---", *own, "row", "---", *own]
    value = part.report.line("before", "vace", "nll")["value"]
    assert f"| {value:.4f}" in next(line for line in table if line.startswith("| vace |"))
    assert {f.name for f in (tmp_path / "images").iterdir()} == {
        "vace_boundaries.svg",
        "vace_gain.svg",
        "vace_traces.svg",
    }
    assert (tmp_path / "calibration" / "linear_cells-lite0.csv").read_text().count("\n") > 50


def test_mean_ranks_give_equals_the_better_rank(part):
    lines = page.ranks([part])
    before = {
        line.split(" | ")[0][2:]: float(line.split(" | ")[1]) for line in lines if line[2:4] in ("pl", "fe", "va")
    }
    values = page._values(part, "before", "ece")
    assert before == {row: float((values < values[row]).sum() + 1) for row in values.index}


def test_gains_and_scatter_are_those_of_classes(part):
    from frostbench.benchmarks.results.curves import _gains, _scatter

    table = read_table(Path(part.chosen.cache))
    assert len(_gains(part)) == len(_scatter(part)) == len(table.class_names)


def test_a_run_reports_its_time_and_memory(part):
    from frostbench.benchmarks.results.costs import costs

    bench = part.bench.model_copy(update={"toggles": {}, "seeds": (0,)})
    ((name, seconds, mebibytes),) = list(costs(bench))
    assert name == "plain"
    assert 0 < seconds < 60
    assert 100 < mebibytes < 10_000


def test_what_a_loss_logs_is_in_the_record(part):
    (key, _) = part.chosen.rows["fedlas_ls"]
    record = json.loads((Path(part.bench.store) / "runs" / key / "record.json").read_text())
    assert len(record["curve"]["gate_share"]) == len(record["curve"]["loss"])
    assert all(0 < share < 2 for share in record["curve"]["gate_share"])
    assert chosen_rows(part.bench)[0].rows == part.chosen.rows


def test_the_table_of_calibrations_is_that_of_the_documentation(monkeypatch):
    from frostbench.benchmarks.results import posthoc

    monkeypatch.setattr(posthoc, "SIZES", (300,))
    told = (Path(__file__).parents[3] / "docs" / "calibration.md").read_text(encoding="utf-8").splitlines()
    own = [[cell.strip() for cell in line.strip("|").split("|")] for line in list(posthoc.lines())[2:]]
    for size, case, *values in own:
        shown = next(line for line in told if line.startswith(f"| {size} | {case} |"))
        assert [float(cell) for cell in shown.strip("|").split("|")[2:]] == pytest.approx(
            list(map(float, values)), abs=0.01
        )
