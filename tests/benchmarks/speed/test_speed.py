import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from frostbench.benchmarks.comparison.ab import pair
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.speed import app, harness, serving
from frostbench.benchmarks.speed.__main__ import main
from frostbench.benchmarks.speed.fake_runs import write_fake_runs
from frostbench.benchmarks.speed.harness import Figure, compare, figure, seconds, turns
from frostbench.embedcache.storage.listing import read_items
from frostbench.embedcache.table import read_table
from frostbench.embedcache.thumbnails import thumbnail


def fake(*ratios: float, goal: float = 1.0):
    def figures(quick: bool) -> Iterator[Figure]:
        for i, ratio in enumerate(ratios):
            yield figure(f"fake.{i}", [(1.0, ratio)], [ratio], goal=goal, unit="quick" if quick else "full")

    return figures


@pytest.mark.parametrize(("ratios", "status"), [([1.0, 2.0], 0), ([2.0, 0.99], 1), ([0.5, 2.0], 1)])
def test_a_missed_goal_is_exit_status_1_and_every_figure_is_shown(capsys, ratios: list[float], status: int) -> None:
    assert main(["fake"], {"fake": fake(*ratios)}) == status
    lines = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [one["ratio"] for one in lines] == ratios
    assert [one["ok"] for one in lines] == [ratio >= 1 for ratio in ratios]
    assert {"name", "ratio", "spread", "goal", "ok", "unit"} <= set(lines[0])
    assert lines[0]["unit"] == "full"


def test_quick_is_passed_on(capsys) -> None:
    main(["fake", "--quick"], {"fake": fake(1.0)})
    assert json.loads(capsys.readouterr().out)["unit"] == "quick"


def test_an_unknown_name_lists_those_there_are(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["nothing"])
    assert stopped.value.code == 2
    assert "cache" in capsys.readouterr().err


def test_ratio_is_the_median_of_the_paired_ratios_and_spread_their_quartile_range() -> None:
    measured = figure("x", [(1, 1), (1, 2), (1, 3), (1, 4), (1, 100)], [1, 2, 3, 4, 100], goal=3.0, unit="times")
    assert (measured.ratio, measured.spread, measured.ok) == (3.0, 2.0, True)
    assert (measured.ours, measured.peer) == (1.0, 3.0)
    assert not figure("x", [(1, 1)], [2.9], goal=3.0, unit="times").ok


def test_compare_alternates_who_goes_first_after_one_unmeasured_run() -> None:
    calls: list[str] = []
    compare("x", lambda: calls.append("ours"), lambda: calls.append("peer"), goal=0, repeats=3, unit="times")
    assert calls == ["peer", "ours", "ours", "peer", "peer", "ours", "ours", "peer"]


def test_compare_gives_more_than_1_where_ours_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "seconds", lambda action: action())
    measured = compare("x", lambda: 0.5, lambda: 2.0, goal=4, repeats=4, unit="times")
    assert (measured.ratio, measured.spread, measured.ours, measured.peer) == (4.0, 0.0, 0.5, 2.0)
    assert measured.ok


def test_turns_begin_with_another_each_round_and_measure_all_but_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "seconds", lambda action: action())
    calls: list[str] = []

    def side(name: str, took: float):
        def run(turn: int) -> float:
            calls.append(f"{name}{turn}")
            return took * turn

        return run

    taken = turns({"a": side("a", 1.0), "b": side("b", 10.0)}, 3)
    assert taken == {"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0, 30.0]}
    assert calls == ["a0", "b0", "b1", "a1", "b2", "a2", "a3", "b3"]


def test_seconds_measures_the_wall_clock() -> None:
    assert 0.02 <= seconds(lambda: time.sleep(0.02)) < 10


@pytest.mark.slow
def test_the_command_lists_its_options() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "frostbench.benchmarks.speed", "--help"], capture_output=True, text=True, check=True
    )
    assert "--quick" in done.stdout


class Closed:
    """A browser that is never used."""

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("quick", "starts", "repeats"), [(True, 1, 3), (False, 3, 7)])
def test_the_page_is_measured_as_often_as_promised(
    monkeypatch: pytest.MonkeyPatch, quick: bool, starts: int, repeats: int
) -> None:
    folders, done = [], {"visit": 0}

    @contextmanager
    def serve(folder):
        folders.append(folder)
        served = serving.Served("http://here/", 2.0 * len(folders), 0)
        monkeypatch.setattr(serving.Served, "megabytes", lambda self: (700.0, 200.0))
        yield served

    def visit(browser, url):
        done["visit"] += 1
        return 0.25, 3.0

    @contextmanager
    def opened(browser, url):
        yield SimpleNamespace(
            locator=lambda _: SimpleNamespace(wait_for=lambda: None), evaluate=lambda _, pair: 250.0 * len(pair) / 3
        )

    monkeypatch.setattr(app, "ROWS", 50)
    monkeypatch.setattr(app, "CLASSES", 5)
    monkeypatch.setattr(app, "start_playwright", nullcontext)
    monkeypatch.setattr(app, "open_browser", lambda playwright: Closed())
    for each in (serve, visit, opened):
        monkeypatch.setattr(app, each.__name__, each)
    for name in ("toggle", "switch"):
        monkeypatch.setattr(app, name, lambda browser, url, times: [0.2] * times)
    monkeypatch.setattr(app, "compare_again", lambda browser, served, pair, times: [1.0] * times)
    for tab in (app.runs_tab, app.data_tab):
        monkeypatch.setattr(tab, "measure", lambda browser, served, times: [app.runs_tab.Times("app.x", [0.5], 1.0)])
    monkeypatch.setattr(app.runs_tab, "write_runs", lambda folder, quick: None)
    monkeypatch.setattr(app.data_tab, "write_caches", lambda folder, quick: None)
    found = {each.name: each for each in app.figures(quick)}
    # One server for visits and comparisons beside those that are only started, one for the runs, one for the data.
    assert (len(folders), done["visit"]) == (starts + 2, repeats)
    assert list(found) == [
        "app.ready", "app.first_paint", "app.usable", "app.toggle", "app.tab", "app.memory (700 MB resident)",
        "app.compare", "app.compare_again", "app.x",
    ]  # fmt: skip
    assert found["app.ready"].ours == (2.0 if quick else 4.0)
    paint, usable = found["app.first_paint"], found["app.usable"]
    assert (paint.ratio, paint.ours, paint.peer, paint.ok) == (2.0, 0.25, 0.5, True)
    assert (usable.ratio, usable.ok, usable.unit) == (0.5, False, "limit of 1.5 s / our seconds")
    memory = found["app.memory (700 MB resident)"]
    assert (memory.ratio, memory.ours, memory.peer) == (2.0, 200.0, 400.0)
    assert (found["app.compare"].ratio, found["app.compare_again"].ratio) == (2.0, 0.5)


def test_a_cache_for_the_timings_is_a_finished_one(tmp_path) -> None:
    app.data_tab.write_cache(tmp_path / "cache", 30, 4, 3)
    app.data_tab.write_thumbnails(tmp_path / "cache", 2)
    table = read_table(tmp_path / "cache")
    assert (len(table.ids), table.columns["x"].shape, len(table.class_names)) == (30, (30, 4), 3)
    item = next(iter(read_items(tmp_path / "cache")))
    assert thumbnail(tmp_path / "cache", item, table.content[0], 96).startswith(b"RIFF")


ANSWERING = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/frostbench/api/runs" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[-1])), Answer).serve_forever()
"""


def test_the_server_is_timed_until_it_answers_and_gone_after_an_error(tmp_path) -> None:
    def use() -> None:
        with serving.serve(tmp_path, [sys.executable, "-c", ANSWERING]) as served:
            seen.append(served.url)
            assert 0 < served.seconds < 60
            assert urllib.request.urlopen(served.url + "frostbench/api/runs", timeout=10).status == 200
            raise KeyError("the browser broke")

    seen: list[str] = []
    with pytest.raises(KeyError, match="the browser broke"):
        use()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(seen[0] + "frostbench/api/runs", timeout=10)


def test_the_output_of_a_server_that_exits_is_reported(tmp_path) -> None:
    with (
        pytest.raises(ConnectionError, match=r"did not answer within .* Its output: the port is taken"),
        serving.serve(tmp_path, [sys.executable, "-c", "import sys; sys.exit('the port is taken')"]),
    ):
        pass


def test_missing_programs_are_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="apt-get install chromium"):
        serving.open_browser(None, which=lambda name: None)
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(ModuleNotFoundError, match="pip install playwright"):
        serving.start_playwright()


def test_a_second_fake_pair_can_be_added(tmp_path) -> None:
    first = write_fake_runs(tmp_path, rows=60, classes=5)
    second = write_fake_runs(tmp_path, rows=60, classes=5, test_rows=57, number=3)
    assert len({*first, *second}) == 4
    splits = {key: read_record(tmp_path, key).data.split for key in (*first, *second)}
    assert (splits[first[0]], splits[second[1]]) == ("fake-0", "fake-3")
    for role, rows in (("select", 60), ("test", 57)):
        assert pair(tmp_path, [second[0]], [second[1]], role, resamples=20).comparison.n_rows == rows


def test_fake_runs_have_other_rows_in_the_test(tmp_path) -> None:
    a, b = write_fake_runs(tmp_path, rows=300, classes=5)
    chosen, test = (pair(tmp_path, [a], [b], role, resamples=20) for role in ("select", "test"))
    assert chosen.comparison.n_rows == test.comparison.n_rows == 300
    ids = [{each for some in found.flips.ids.values() for each in some} for found in (chosen, test)]
    assert [len(some) for some in ids] == [300, 300]
    assert not ids[0] & ids[1]


WAITS = (
    "ready", "first_paint", "usable", "toggle", "tab", "memory", "compare", "compare_again", "runs_first", "runs",
    "runs_filter", "runs_sort", "map_50k", "map_250k", "thumbnails", "relabel",
)  # fmt: skip
SMALL = """
import sys
from frostbench.benchmarks.speed import __main__, app, data_tab
app.ROWS, app.CLASSES = 400, 5
data_tab.QUICK_SHARE = 100
sys.exit(__main__.main(["app", "--quick"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, serving.CHROMIUMS)), reason="needs a Chromium: apt-get install chromium")
def test_the_page_is_measured_in_a_browser() -> None:
    # In a process of its own: a thread can drive only one playwright at a time.
    done = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, timeout=300)
    found = [json.loads(text) for text in done.stdout.splitlines()]
    names = [each["name"].partition(" ")[0] for each in found]
    assert names == [f"app.{name}" for name in WAITS], done.stderr
    assert done.returncode == int(not all(each["ok"] for each in found))
    # Nothing is shown before the server's first bytes, and the form is usable after the first paint.
    ours = {name: each["ours"] for name, each in zip(names, found, strict=True)}
    assert 0 < ours["app.first_paint"] < ours["app.usable"]
    assert 50 < ours["app.memory"] < 4000
