"""The tables of the page, each from jobs that are done side by side."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from frostbench.benchmarks.results.defaults.cuts import Roles, cut, few
from frostbench.benchmarks.results.defaults.jobs import Code, Fit, Job, Work, done
from frostbench.benchmarks.results.defaults.scores import Difference, Score, difference, logreg, mean, score
from frostbench.benchmarks.results.tables import Table

LENGTHS: tuple[float | None, ...] = (None, 1, 10, 50, 300)
"""Lengths that every vector is brought to; None leaves it as it is."""
FACTORS = (0.01, 100.0)
"""What vectors as they are are multiplied with."""
PRESETS = ("plain", "baseline")
BEHIND, NATS = 0.02, 0.05
"""How far a head may lie below logistic regression in macro F1 on 120 rows, and above it in NLL."""
METRICS = ("accuracy", "macro_f1", "nll", "ece")


@dataclass(frozen=True)
class Setting:
    """What the sections are made of.

    Attributes:
        makers: what makes each table, by its name, for a draw.
        codes: that fit; the last is today's.
        draws: how often a table is cut anew, or drawn anew.
        folder: of finished fits.
    """

    makers: Mapping[str, Callable[[int], Table]]
    codes: Sequence[Code]
    draws: int
    folder: Path

    def all(self, jobs: Callable[[Code], Sequence[Job]], table: Table, name: str) -> list[list[Fit]]:
        """The fits on a table by each code."""
        return done([Work(table, name, code, jobs(code)) for code in self.codes], self.folder)


def ties(setting: Setting) -> Iterator[str]:
    """Thirty separable classes at norm 1, on which every epoch from the third on is right about all rows."""
    rng = np.random.default_rng(0)
    means, labels = rng.normal(size=(30, 128)), np.repeat(np.arange(30), 40)
    x = (means[labels] + 0.3 * rng.normal(size=(1200, 128))).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    yield from ("## Epochs that tie", "", "Thirty separable classes, 1,200 unit vectors; validation rows.", "")
    yield from head(["head", "code", "kept epoch", "accuracy", "NLL", "ECE"])
    found = setting.all(lambda code: [Job(preset) for preset in PRESETS], Table(x, labels), "ties")
    for place, preset in enumerate(PRESETS):
        for code, fits in zip(setting.codes, found, strict=True):
            one = fits[place]
            yield line([preset, code.title, str(one.epoch), *(f"{value:.3f}" for value in one.metrics)])
    yield ""


def by_scale(setting: Setting) -> Iterator[str]:
    """Each table at every length and factor; the first draw alone."""
    names = ["as they are", *(f"norm {length:g}" for length in LENGTHS[1:]), *(f"× {factor:g}" for factor in FACTORS)]
    yield from ("## The scale of the vectors", "", "Accuracy/macro F1/NLL on test rows; one cut.", "")
    yield from head(["vectors", "head", "code", "best-C logreg", *names])
    for name, make in setting.makers.items():
        table = make(0)
        roles = cut(table, 0)
        scales = [*((length, 1.0) for length in LENGTHS), *((None, factor) for factor in FACTORS)]
        jobs = [Job(preset, tuple(roles), *scale) for preset in PRESETS for scale in scales]
        found = setting.all(lambda code, jobs=jobs: jobs, table, name)  # type: ignore[misc]
        solved = logreg(table, roles)
        for place, preset in enumerate(PRESETS):
            for code, fits in zip(setting.codes, found, strict=True):
                own = fits[place * len(scales) : (place + 1) * len(scales)]
                cells = [str(score(fit.p, table, roles)) for fit in own]
                yield line([f"{name}, {table.x.shape[1]}-D", preset, code.title, str(solved), *cells])
    yield ""


def beside_logreg(setting: Setting) -> Iterator[str]:
    """Today's heads beside logistic regression over draws, on most rows of each table."""
    yield from ("## Beside logistic regression", "")
    yield f"Means over {setting.draws} draws; differences with their 95 % intervals. Heads are not refitted here, so"
    yield from ("that they have seen the rows that logistic regression has.", "")
    yield from _beside(setting, cut, None, 0.0)


def few_rows(setting: Setting) -> Iterator[str]:
    """The same with 120 training rows at norm 1."""
    yield from ("## 120 training rows", "")
    yield f"Vectors at norm 1; 60 rows choose epochs, 60 calibrate, the others test. Means over {setting.draws} draws."
    yield ""
    yield from _beside(setting, few, 1, BEHIND)


def _beside(
    setting: Setting, roles_of: Callable[[Table, int], Roles], length: float | None, behind: float
) -> Iterator[str]:
    """A line for each table, head and code, and what misses the aim."""
    yield from head(
        ["vectors", "best-C logreg", "head", "code", "score", "macro F1 less logreg's", "NLL less logreg's"]
    )
    misses: list[str] = []
    for name in setting.makers:
        drawn = list(_over_draws(setting, name, roles_of, lambda _, roles, draw: _both_presets(roles, draw, length)))
        solved, overlap = [logreg(_brought(one.table, length), one.roles) for one in drawn], _overlap(drawn)
        for place, preset in enumerate(PRESETS):
            for number, code in enumerate(setting.codes):
                own = [score(one.fits[number][place].p, one.table, one.roles) for one in drawn]
                f1, nll = (
                    difference([getattr(s, key) for s in own], [getattr(s, key) for s in solved], overlap)
                    for key in ("macro_f1", "nll")
                )
                yield line([name, str(mean(solved)), preset, code.title, str(mean(own)), str(f1), str(nll)])
                if code is setting.codes[-1]:
                    misses += _missed(f"{preset} on {name}", f1, nll, behind)
    yield from ("", f"Misses the aim now: {'; '.join(misses) or 'none'}.", "")


def _both_presets(roles: Roles, draw: int, length: float | None) -> list[Job]:
    return [Job(preset, tuple(roles), length, seed=draw) for preset in PRESETS]


def _brought(table: Table, length: float | None) -> Table:
    """The table with vectors of a length, where one is given."""
    if length is None:
        return table
    norms = np.maximum(np.linalg.norm(table.x, axis=1, keepdims=True), 1e-12)
    return table._replace(x=(table.x / norms * length).astype(np.float32))


def _missed(who: str, f1: Difference, nll: Difference, behind: float) -> list[str]:
    """What lies below the aim; macro F1 where even the upper end of its interval does."""
    found = [f"{who} in macro F1"] if (f1.mean if behind else f1.high) < -behind else []
    return found + ([f"{who} in NLL"] if not behind and nll.mean > NATS else [])


def handed_over(setting: Setting) -> Iterator[str]:
    """What `fit` hands over if nothing is chosen, before and now."""
    yield from ("## What a fit hands over", "")
    yield f"Preset `baseline` with all that is done by default. Means over {setting.draws} draws; now less before, with"
    yield from ("95 % intervals; bold where the interval leaves out 0.", "")
    titles = ("accuracy", "macro F1", "NLL", "ECE")
    yield from head(["vectors", *(f"{title}: before, now" for title in titles), *titles])
    for name in setting.makers:
        found: list[list[Score]] = [[] for _ in setting.codes]
        drawn = list(_over_draws(setting, name, cut, _handed))
        for one in drawn:
            for own, (fit,) in zip(found, one.fits, strict=True):
                own.append(score(fit.p, one.table, one.roles))
        pairs = [([getattr(s, key) for s in found[-1]], [getattr(s, key) for s in found[0]]) for key in METRICS]
        means = [f"{np.mean(before):.3f}, {np.mean(now):.3f}" for now, before in pairs]
        yield line([name, *means, *(_bold(difference(*pair, _overlap(drawn))) for pair in pairs)])
    yield ""


def _handed(is_today: bool, roles: Roles, draw: int) -> list[Job]:
    """The head that a code hands over: before, refits were not made by default, and None was not known."""
    return [Job("baseline", tuple(roles), seed=draw, refit=None if is_today else False)]


class _Drawn(NamedTuple):
    """A draw of a table: what it is, the role [N] of each row, and the fits of each code."""

    table: Table
    roles: Roles
    fits: list[list[Fit]]


def _over_draws(
    setting: Setting,
    name: str,
    roles_of: Callable[[Table, int], Roles],
    jobs_of: Callable[[bool, Roles, int], Sequence[Job]],
) -> Iterator[_Drawn]:
    """Each draw of a table with the fits of its jobs by each code; `jobs_of` is told whether the code is today's."""
    made = [setting.makers[name](draw) for draw in range(setting.draws)]
    roles = [roles_of(table, draw) for draw, table in enumerate(made)]
    today = setting.codes[-1]
    jobs = [[jobs_of(code is today, own, draw) for draw, own in enumerate(roles)] for code in setting.codes]
    works = [
        Work(table, f"{name} {draw}", code, own[draw])
        for code, own in zip(setting.codes, jobs, strict=True)
        for draw, table in enumerate(made)
    ]
    fits = done(works, setting.folder)
    for draw, (table, own) in enumerate(zip(made, roles, strict=True)):
        yield _Drawn(table, own, fits[draw :: setting.draws])


def _overlap(drawn: Sequence[_Drawn]) -> float:
    """Test rows over training rows where most rows of one table train in each draw; else draws share hardly any."""
    last = drawn[-1]
    tested, trained = (int((last.roles == role).sum()) for role in ("test", "train"))
    return 0.0 if last.table.is_drawn or tested > trained else tested / trained


def _bold(found: Difference) -> str:
    return f"**{found}**" if found.low > 0 or found.high < 0 else str(found)


def head(names: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [line(names), line(["---"] * len(names))]


def line(cells: Sequence[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"
