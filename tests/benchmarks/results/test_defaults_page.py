"""The tables of docs/results/defaults.md on few rows."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from frostbench.benchmarks.results.defaults import jobs, page, sections
from frostbench.benchmarks.results.defaults.cuts import SHARES, cut, few
from frostbench.benchmarks.results.defaults.jobs import NOW, Code, Fit, Job, Work, done
from frostbench.benchmarks.results.defaults.one_fit import scaled
from frostbench.benchmarks.results.defaults.scores import Score, difference, logreg, mean, score
from frostbench.benchmarks.results.tables import Table, drawn, drawn_as_clip


def toy(draw: int = 0) -> Table:
    """Three classes that lie far apart, a hundred rows each."""
    rng, labels = np.random.default_rng(draw), np.repeat(np.arange(3), 100)
    x = 3 * np.eye(3, 8)[labels] + 0.1 * rng.normal(size=(300, 8))
    return Table(x.astype(np.float32), labels)


@pytest.fixture
def answered(monkeypatch):
    """Jobs are answered here with the truth, and not by processes; the jobs that came, by code."""
    came: dict[str, list[Job]] = {}

    def answer(works, folder):
        found = []
        for work in works:
            came.setdefault(work.code.title, []).extend(work.jobs)
            found.append([fit_of(work.table, job) for job in work.jobs])
        return found

    def fit_of(table, job):
        roles = np.array(job.roles) if job.roles else np.full(len(table.labels), "train")
        return Fit(0.05 + 0.85 * np.eye(3)[table.labels[roles == "test"] % 3], (1.0, 0.1, 0.2), 7)

    monkeypatch.setattr(sections, "done", answer)
    return came


def setting(*codes: str, makers=None) -> sections.Setting:
    return sections.Setting(makers or {"toy": toy}, [Code(title, NOW) for title in codes], 3, Path("unused"))


def cells(lines, start: str) -> list[list[str]]:
    """The cells of each line of a table that begins so."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith(start)]


class TestTables:
    def test_drawn_tables_are_long_tailed_and_those_of_clip_have_length_1(self):
        clip, plain = drawn_as_clip(np.random.default_rng(0), rows=600), drawn(np.random.default_rng(0), rows=600)
        assert np.linalg.norm(clip.x, axis=1) == pytest.approx(np.ones(600), abs=1e-5)
        assert (clip.x.shape, plain.x.shape) == ((600, 512), (600, 384))
        assert (clip.is_drawn, plain.is_drawn) == (True, True)
        counts = np.bincount(plain.labels)
        assert counts[0] > 5 * counts[-1]

    def test_roles_are_cut_class_by_class(self):
        labels = np.repeat(np.arange(4), 100)
        roles = cut(Table(np.zeros((400, 2), np.float32), labels), 0)
        wanted = {"train": 60, "select": 15, "calibrate": 10, "test": 15}
        for label in range(4):
            assert {role: int((roles[labels == label] == role).sum()) for role in wanted} == wanted
        assert (roles != cut(Table(np.zeros((400, 2), np.float32), labels), 1)).any()

    def test_groups_are_cut_whole(self):
        groups = np.repeat(np.arange(100).astype(str), 3)
        roles = cut(Table(np.zeros((300, 2), np.float32), np.zeros(300, np.int64), groups), 0)
        assert all(len(set(roles[groups == name])) == 1 for name in set(groups))
        assert [(roles == role).sum() for role in SHARES] == [45, 30, 45]

    def test_few_rows_train_and_the_rest_test(self):
        roles = few(Table(np.zeros((400, 2), np.float32), np.zeros(400, np.int64)), 0)
        assert [(roles == role).sum() for role in ("train", "select", "calibrate", "test")] == [120, 60, 60, 160]


class TestScores:
    def test_a_class_without_a_training_row_is_left_out_of_the_nll(self):
        table = Table(np.zeros((5, 2), np.float32), np.array([0, 1, 0, 1, 2]))
        roles = np.array(["train", "train", "test", "test", "test"])
        p = np.array([[0.5, 0.4, 0.1], [0.5, 0.4, 0.1], [0.5, 0.4, 0.1]])
        found = score(p, table, roles)
        assert found.accuracy == pytest.approx(1 / 3)
        assert found.nll == pytest.approx(-(np.log(0.5) + np.log(0.4)) / 2, abs=1e-6)

    def test_the_interval_of_draws_that_share_rows_is_wider(self):
        """Differences 1, 2, 3: mean 2, deviation 1, and t(2) at .975 is 4.3027."""
        alone = difference([1, 2, 3], [0, 0, 0], 0.0)
        assert (alone.mean, alone.high - alone.mean) == pytest.approx((2, 4.302653 / np.sqrt(3)), abs=1e-5)
        shared = difference([1, 2, 3], [0, 0, 0], 0.25)
        assert shared.high - shared.mean == pytest.approx(4.302653 * np.sqrt(1 / 3 + 0.25), abs=1e-5)
        assert str(difference([0.1, 0.1], [0.0, 0.0], 0.0)) == "+0.100 [+0.100, +0.100]"

    def test_the_mean_of_scores_is_that_of_each_metric(self):
        assert mean([Score(0, 0, 1, 1), Score(1, 0.5, 2, 0)]) == Score(0.5, 0.25, 1.5, 0.5)
        assert str(Score(0.5, 0.25, 1.5, 0.5)) == ".500/.250/1.500"

    def test_logistic_regression_is_right_about_classes_far_apart(self):
        table = toy()
        assert logreg(table, cut(table, 0)).accuracy == 1.0


class TestJobs:
    def test_vectors_are_brought_to_a_length_and_multiplied(self):
        x = np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)
        assert scaled(x, 10, 2.0).tolist() == [[12.0, 16.0], [0.0, 0.0]]
        assert scaled(x, None, 0.5).tolist() == [[1.5, 2.0], [0.0, 0.0]]

    def test_a_name_is_of_all_that_a_job_is(self):
        job = Job("plain", ("train", "test"))
        others = [
            replace(job, **{name: value})
            for name, value in {
                "preset": "mlp",
                "roles": ("test",),
                "length": 1.0,
                "factor": 2.0,
                "seed": 1,
                "refit": None,
            }.items()
        ]
        assert len({job.name, *(other.name for other in others)}) == 7
        assert job.name == Job("plain", ("train", "test")).name

    def test_code_is_known_by_its_files(self, tmp_path):
        for part in ("configs", "embedcache", "heads", "training"):
            (tmp_path / part).mkdir()
        file = tmp_path / "heads" / "linear.py"
        digests = []
        for text in ("a = 1", "a = 2"):
            file.write_text(text)
            digests.append(Code("x", tmp_path).digest())
        assert digests[0] != digests[1]

    def test_a_fit_is_made_once_and_read_after_that(self, tmp_path, monkeypatch):
        table = toy()
        roles = tuple(cut(table, 0))
        jobs_here = [Job("plain", roles), Job("plain")]
        work = [Work(table, "toy", Code("now", NOW), jobs_here)]
        ((tested, all_rows),) = done(work, tmp_path)
        assert score(tested.p, table, np.array(roles)).accuracy == 1.0
        assert all_rows.p.shape == (0, 3)
        assert all_rows.metrics[0] == 1.0
        monkeypatch.setattr(jobs.subprocess, "run", lambda *a, **k: pytest.fail("done already"))
        ((again, _),) = done(work, tmp_path)
        assert (again.p == tested.p).all()
        # Other vectors under the same name are not taken for these.
        monkeypatch.setattr(jobs.subprocess, "run", lambda *a, **k: (_ for _ in ()).throw(KeyError("asked")))
        with pytest.raises(KeyError, match="asked"):
            done([work[0]._replace(table=toy(1))], tmp_path)

    def test_a_fit_that_fails_says_where_and_why(self, tmp_path):
        work = [Work(toy(), "toy", Code("now", NOW), [Job("no-such-preset")])]
        with pytest.raises(ChildProcessError, match=r"fits on toy by .* failed:(?s:.*)no-such-preset"):
            done(work, tmp_path)

    def test_what_a_process_is_given_is_plain_data(self):
        assert json.loads(json.dumps(asdict(Job("plain", ("train",)))))["roles"] == ["train"]


class TestSections:
    def test_a_table_at_every_scale_is_a_line_for_each_head_and_code(self, answered):
        lines = cells(sections.by_scale(setting("before", "now")), "| toy")
        assert [line[:3] for line in lines] == [
            ["toy, 8-D", preset, code] for preset in ("plain", "baseline") for code in ("before", "now")
        ]
        assert [line[3].split("/")[:2] for line in lines] == [["1.000", "1.000"]] * 4
        assert {cell for line in lines for cell in line[4:]} == {"1.000/1.000/.105"}
        assert {(job.length, job.factor) for job in answered["now"]} == {
            (None, 1.0), (1, 1.0), (10, 1.0), (50, 1.0), (300, 1.0), (None, 0.01), (None, 100.0)
        }  # fmt: skip

    def test_heads_beside_logistic_regression_tell_what_misses_the_aim(self, answered):
        lines = list(sections.beside_logreg(setting("now")))
        assert len(cells(lines, "| toy")) == 2
        assert "Misses the aim now: plain on toy in NLL; baseline on toy in NLL." in lines
        assert {job.seed for job in answered["now"]} == {0, 1, 2}
        assert {job.refit for job in answered["now"]} == {False}

    @pytest.mark.parametrize(("f1", "nll", "behind", "wanted"), [
        ((-0.03, -0.05, -0.01), 0.0, 0.0, ["x in macro F1"]),
        ((-0.03, -0.07, 0.01), 0.06, 0.0, ["x in NLL"]),
        ((-0.03, -0.07, 0.01), 0.06, 0.02, ["x in macro F1"]),
        ((-0.01, -0.02, -0.005), 0.06, 0.02, []),
    ])  # fmt: skip
    def test_the_aims(self, f1, nll, behind, wanted):
        nats = sections.Difference(nll, nll - 1, nll + 1)
        assert sections._missed("x", sections.Difference(*f1), nats, behind) == wanted

    def test_what_is_handed_over_is_refitted_by_todays_code_alone(self, answered):
        lines = cells(sections.handed_over(setting("before", "now")), "| toy")
        assert lines[0][1:4] == ["1.000, 1.000", "1.000, 1.000", "0.105, 0.105"]
        assert lines[0][5] == "+0.000 [+0.000, +0.000]"
        assert {job.refit for job in answered["before"]} == {False}
        assert {job.refit for job in answered["now"]} == {None}

    def test_ties_are_judged_on_validation_rows(self, answered):
        lines = cells(sections.ties(setting("now")), "| plain")
        assert lines == [["plain", "now", "7", "1.000", "0.100", "0.200"]]
        assert answered["now"][0].roles == ()


class TestPage:
    def test_lines_replace_what_is_below_the_marker(self, answered, tmp_path, monkeypatch):
        monkeypatch.setattr(page, "tables", lambda data, work: {"toy": toy})
        (tmp_path / "defaults.md").write_text(f"# Title\n\nWords.\n\n{page.MARKER}\nold\n")
        told = list(page.written(None, tmp_path, tmp_path, draws=2))
        text = (tmp_path / "defaults.md").read_text()
        assert text.startswith("# Title\n\nWords.\n\n" + page.MARKER)
        assert text.endswith("\n".join(told))
        assert "What a fit hands over" not in text

    def test_bad_requests_are_refused_before_anything_is_fitted(self, tmp_path, monkeypatch):
        monkeypatch.setattr(page, "tables", lambda data, work: {"toy": toy})
        with pytest.raises(ValueError, match=r"one of \['toy'\], got \['coins'\]"):
            next(page.written(None, tmp_path, tmp_path, ["coins"]))
        with pytest.raises(ValueError, match="at least 2 draws, got 1"):
            next(page.written(None, tmp_path, tmp_path, draws=1))
        with pytest.raises(ValueError, match=r"has no benchmarks/api\.py"):
            next(page.written(None, tmp_path, tmp_path, before=tmp_path))


class TestWhichCodeFits:
    """The column `before` is that of the older checkout, although today's `frostbench` is installed."""

    LOADED = "import runpy, sys; print(runpy.run_path(sys.argv[1])['the_fit']())"

    def fit_in(self, folder):
        command = [sys.executable, "-P", "-c", self.LOADED, str(Path(jobs.__file__).with_name("one_fit.py"))]
        code = Code("before", folder)
        return subprocess.run(command, env=code.environment(), capture_output=True, text=True, check=False)

    def test_an_older_checkout_has_its_own(self, tmp_path):
        (tmp_path / "benchmarks").mkdir()
        (tmp_path / "benchmarks" / "api.py").write_text("fit = 'the older one'")
        ended = self.fit_in(tmp_path)
        assert (ended.stdout.strip(), ended.returncode) == ("the older one", 0), ended.stderr

    def test_code_from_elsewhere_is_refused(self, tmp_path):
        (tmp_path / "frostbench").mkdir()
        ended = self.fit_in(tmp_path)
        assert ended.returncode == 1
        assert f"frostbench.benchmarks.api must be imported from {tmp_path.resolve()}, but was found in" in ended.stderr
