"""The tables of the page; the jobs of each table run in parallel."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from frostbench.benchmarks.results.defaults.cuts import Roles, cut, few, overlap_of
from frostbench.benchmarks.results.defaults.jobs import Code, Fit, Job, Work, done
from frostbench.benchmarks.results.defaults.scores import Difference, Score, difference, logreg, mean, score
from frostbench.benchmarks.results.markdown import table_line
from frostbench.benchmarks.results.tables import Table

LENGTHS: tuple[float | None, ...] = (None, 1, 10, 50, 300)
"""Norms that every vector is scaled to; None leaves it unchanged."""
FACTORS = (0.01, 100.0)
"""Factors for unscaled vectors."""
PRESETS = ("plain", "baseline")
BEHIND, NATS = 0.02, 0.05
"""Allowed deficit in macro F1 on 120 rows, and allowed excess in NLL, compared with logistic regression."""
METRICS = ("accuracy", "macro_f1", "nll", "ece")


@dataclass(frozen=True)
class Setting:
    """Input of the sections.

    Attributes:
        makers: function from draw to table, by table name.
        codes: code versions to fit with; the last is today's.
        draws: number of random splits, or simulations, of each table.
        folder: folder of finished fits.
    """

    makers: Mapping[str, Callable[[int], Table]]
    codes: Sequence[Code]
    draws: int
    folder: Path

    def all(self, jobs: Callable[[Code], Sequence[Job]], table: Table, name: str) -> list[list[Fit]]:
        """Return the fits on a table by each code version."""
        return done([Work(table, name, code, jobs(code)) for code in self.codes], self.folder)


def ties(setting: Setting) -> Iterator[str]:
    """Yield a table of separable classes, for which every epoch from the third on predicts all rows correctly."""
    rng = np.random.default_rng(0)
    means, labels = rng.normal(size=(30, 128)), np.repeat(np.arange(30), 40)
    x = (means[labels] + 0.3 * rng.normal(size=(1200, 128))).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    yield from ("## Epochs that tie", "", "Thirty separable classes, 1,200 unit vectors; validation rows.", "")
    yield from head(["head", "code", "kept epoch", "accuracy", "NLL", "ECE"])
    fits_by_code = setting.all(lambda code: [Job(preset) for preset in PRESETS], Table(x, labels), "ties")
    for index, preset in enumerate(PRESETS):
        for code, fits in zip(setting.codes, fits_by_code, strict=True):
            fit = fits[index]
            yield table_line([preset, code.title, str(fit.epoch), *(f"{value:.3f}" for value in fit.metrics)])
    yield ""


def by_scale(setting: Setting) -> Iterator[str]:
    """Yield a table of scores at every norm and factor, for the first draw."""
    names = ["as they are", *(f"norm {length:g}" for length in LENGTHS[1:]), *(f"× {factor:g}" for factor in FACTORS)]
    yield from ("## The scale of the vectors", "", "Accuracy/macro F1/NLL on test rows; one cut.", "")
    yield from head(["vectors", "head", "code", "best-C logreg", *names])
    for name, make in setting.makers.items():
        table = make(0)
        roles = cut(table, 0)
        scales = [*((length, 1.0) for length in LENGTHS), *((None, factor) for factor in FACTORS)]
        jobs = [Job(preset, tuple(roles), *scale) for preset in PRESETS for scale in scales]
        fits_by_code = setting.all(lambda code, jobs=jobs: jobs, table, name)  # type: ignore[misc]
        logreg_scores = logreg(table, roles)
        for index, preset in enumerate(PRESETS):
            for code, fits in zip(setting.codes, fits_by_code, strict=True):
                scores = fits[index * len(scales) : (index + 1) * len(scales)]
                cells = [str(score(fit.p, table, roles)) for fit in scores]
                yield table_line([f"{name}, {table.x.shape[1]}-D", preset, code.title, str(logreg_scores), *cells])
    yield ""


def beside_logreg(setting: Setting) -> Iterator[str]:
    """Yield a table that compares today's heads with logistic regression over draws."""
    yield from ("## Beside logistic regression", "")
    yield f"Means over {setting.draws} draws; differences with their 95 % intervals. Heads are not refitted here, so"
    yield from ("that they have seen the rows that logistic regression has.", "")
    yield from _beside(setting, cut, None, 0.0)


def few_rows(setting: Setting) -> Iterator[str]:
    """Yield the table of `beside_logreg` for 120 training rows and vectors of norm 1."""
    yield from ("## 120 training rows", "")
    yield f"Vectors at norm 1; 60 rows choose epochs, 60 calibrate, the others test. Means over {setting.draws} draws."
    yield ""
    yield from _beside(setting, few, 1, BEHIND)


def _beside(
    setting: Setting, roles_of: Callable[[Table, int], Roles], length: float | None, behind: float
) -> Iterator[str]:
    """Yield a line per table, head and code version, and the heads that miss the aim."""
    yield from head(
        ["vectors", "best-C logreg", "head", "code", "score", "macro F1 less logreg's", "NLL less logreg's"]
    )
    misses: list[str] = []
    for name in setting.makers:
        draws = list(_over_draws(setting, name, roles_of, lambda _, roles, draw: _both_presets(roles, draw, length)))
        logreg_scores, overlap = [logreg(_at_length(d.table, length), d.roles) for d in draws], _overlap(draws)
        for index, preset in enumerate(PRESETS):
            for number, code in enumerate(setting.codes):
                scores = [score(d.fits[number][index].p, d.table, d.roles) for d in draws]
                f1, nll = (
                    difference([getattr(s, key) for s in scores], [getattr(s, key) for s in logreg_scores], overlap)
                    for key in ("macro_f1", "nll")
                )
                yield table_line(
                    [name, str(mean(logreg_scores)), preset, code.title, str(mean(scores)), str(f1), str(nll)]
                )
                if code is setting.codes[-1]:
                    misses += _missed(f"{preset} on {name}", f1, nll, behind)
    yield from ("", f"Misses the aim now: {'; '.join(misses) or 'none'}.", "")


def _both_presets(roles: Roles, draw: int, length: float | None) -> list[Job]:
    return [Job(preset, tuple(roles), length, seed=draw) for preset in PRESETS]


def _at_length(table: Table, length: float | None) -> Table:
    if length is None:
        return table
    norms = np.maximum(np.linalg.norm(table.x, axis=1, keepdims=True), 1e-12)
    return table._replace(x=(table.x / norms * length).astype(np.float32))


def _missed(label: str, f1: Difference, nll: Difference, behind: float) -> list[str]:
    """Return the metrics that miss the aim.

    Without `behind`, macro F1 misses it if its interval is below 0, and NLL if its mean exceeds NATS; with it, only
    macro F1 can, if its mean is below -behind.
    """
    misses = [f"{label} in macro F1"] if (f1.mean if behind else f1.high) < -behind else []
    return misses + ([f"{label} in NLL"] if not behind and nll.mean > NATS else [])


def handed_over(setting: Setting) -> Iterator[str]:
    """Yield a table of the heads that `fit` returns by default, before and now."""
    yield from ("## What a fit hands over", "")
    yield f"Preset `baseline` with all that is done by default. Means over {setting.draws} draws; now less before, with"
    yield from ("95 % intervals; bold where the interval leaves out 0.", "")
    titles = ("accuracy", "macro F1", "NLL", "ECE")
    yield from head(["vectors", *(f"{title}: before, now" for title in titles), *titles])
    for name in setting.makers:
        scores_by_code: list[list[Score]] = [[] for _ in setting.codes]
        draws = list(_over_draws(setting, name, cut, _handed))
        for d in draws:
            for scores, (fit,) in zip(scores_by_code, d.fits, strict=True):
                scores.append(score(fit.p, d.table, d.roles))
        now_scores, before_scores = scores_by_code[-1], scores_by_code[0]
        pairs = [([getattr(s, key) for s in now_scores], [getattr(s, key) for s in before_scores]) for key in METRICS]
        means = [f"{np.mean(before):.3f}, {np.mean(now):.3f}" for now, before in pairs]
        yield table_line([name, *means, *(_bold(difference(*pair, _overlap(draws))) for pair in pairs)])
    yield ""


def _handed(is_today: bool, roles: Roles, draw: int) -> list[Job]:
    """Return the job of a default head; earlier versions did not refit by default and did not accept None."""
    return [Job("baseline", tuple(roles), seed=draw, refit=None if is_today else False)]


class _Drawn(NamedTuple):
    """One draw of a table: the table, the role [N] of each row, and the fits of each code version."""

    table: Table
    roles: Roles
    fits: list[list[Fit]]


def _over_draws(
    setting: Setting,
    name: str,
    roles_of: Callable[[Table, int], Roles],
    jobs_of: Callable[[bool, Roles, int], Sequence[Job]],
) -> Iterator[_Drawn]:
    """Yield each draw of a table with its fits; `jobs_of` gets whether the code version is today's."""
    draw_tables = [setting.makers[name](draw) for draw in range(setting.draws)]
    roles = [roles_of(table, draw) for draw, table in enumerate(draw_tables)]
    today = setting.codes[-1]
    jobs = [[jobs_of(code is today, r, draw) for draw, r in enumerate(roles)] for code in setting.codes]
    works = [
        Work(table, f"{name} {draw}", code, code_jobs[draw])
        for code, code_jobs in zip(setting.codes, jobs, strict=True)
        for draw, table in enumerate(draw_tables)
    ]
    fits = done(works, setting.folder)
    for draw, (table, table_roles) in enumerate(zip(draw_tables, roles, strict=True)):
        yield _Drawn(table, table_roles, fits[draw :: setting.draws])


def _overlap(draws: Sequence[_Drawn]) -> float:
    return overlap_of(draws[-1].table, draws[-1].roles)


def _bold(value: Difference) -> str:
    return f"**{value}**" if value.low > 0 or value.high < 0 else str(value)


def head(names: Sequence[str]) -> list[str]:
    """Return the first two lines of a table."""
    return [table_line(names), table_line(["---"] * len(names))]
