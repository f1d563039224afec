"""A proposal of what to do next, and what the rules that make proposals know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from frostbench.app.workbench.runs.run_list import Setting
from frostbench.benchmarks.runs.record import RunRecord


@dataclass(frozen=True)
class Step:
    """A proposal.

    Attributes:
        id: name of its rule.
        title: the figure, in a few words.
        text: what it means, and what to do about it.
        label: text of the button or link.
        href: address that the link opens; "" if the button loads settings into the tab Train.
        load: ids of settings as `a` and `b`.
        set: what the address of the tab Train states beyond the settings.
    """

    id: str
    title: str
    text: str
    label: str
    href: str = ""
    load: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """One of the two settings that the proposals are about.

    Attributes:
        setting: the setting.
        records: records of its runs, by seed.
    """

    setting: Setting
    records: tuple[RunRecord, ...]


@dataclass(frozen=True)
class Facts:
    """What the rules know; the server has all of it at hand or reads it from a few records.

    Attributes:
        cache: the page's name of the cache, or "".
        a: the setting that others are compared with.
        b: the pinned one, or the best other one; None if there is no other one.
        settings: all settings of the same data in the store, the best first.
        copies: number of held-out images with a near-copy in training, and of all held-out images; None if the tab
            Data has not searched for them since the server was started, or the images cannot be split.
        suspects: number of labels that disagree with the images around them and were not checked; None likewise.
        checked: number of labels that a person has checked.
        difference: `delta`, `low`, `high`, `verdict`, `more_groups`, `more_seeds` and `has_groups` of B against A in
            validation macro F1; None if they cannot be compared.
        revealed: keys of the runs whose test images were looked at.
        specs: settings that differ from the defaults by run key, for all runs of the same data.
    """

    cache: str
    a: Side
    b: Side | None
    settings: tuple[Setting, ...] = ()
    copies: tuple[int, int] | None = None
    suspects: int | None = None
    checked: int = 0
    difference: Mapping[str, Any] | None = None
    revealed: frozenset[str] = frozenset()
    specs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def subject(self) -> Side:
        """The setting that proposals about a single one are about: B, or A if there is no other."""
        return self.b or self.a


Rule = Callable[[Facts], Step | None]


def things(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> things(1, "label"), things(1225, "image")
    ('1 label', '1,225 images')
    """
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def percent(share: float) -> str:
    """Return a share in per cent.

    >>> percent(0.278)
    '27.8 %'
    """
    return f"{100 * share:.1f} %"


def mean(values: tuple[float | None, ...]) -> float | None:
    """Return the mean of the defined values, or None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def macro_f1(setting: Setting) -> float | None:
    """Return the mean validation macro F1 of a setting over its seeds."""
    return mean(setting.values.get("macro_f1_fg", ()))
