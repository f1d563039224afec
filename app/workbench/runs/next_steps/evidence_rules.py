"""Proposals about what the runs can show: seeds and images, validation against test, and calibration."""

import math
from urllib.parse import urlencode

from frostbench.app.workbench.runs.next_steps.step import Facts, Side, Step, mean, percent, things
from frostbench.benchmarks.comparison.settling import words_of

FEWEST_SEEDS = 3
"""Number of seeds to propose where there is one, which shows nothing about the variation."""
CHANCE = 2.58
"""Standard errors beyond which a difference is not chance, at 99 %."""
ECE_GAIN = 0.01
"""Smallest fall of the calibration error that is worth a temperature."""


def more_seeds_or_images(facts: Facts) -> Step | None:
    """Say what would settle an undecided difference between A and B."""
    if facts.b is None or facts.difference is None or facts.difference["verdict"] in ("better", "worse"):
        return None
    found, seeds = facts.difference, len(facts.b.setting.seeds)
    points = f"{abs(100 * found['delta']):.1f} points of macro F1"
    load = {"a": facts.a.setting.id, "b": facts.b.setting.id}
    if seeds == 1:
        return Step(
            id="more_seeds_or_images",
            title=f"One seed cannot prove the {points} between A and B",
            text=f"How much another seed would change is unknown. {FEWEST_SEEDS} seeds are the fewest that tell.",
            label="Add seeds",
            load=load,
            set={"seeds": str(FEWEST_SEEDS)},
        )
    needed = words_of(found["more_groups"], found["more_seeds"], found["has_groups"])
    if not needed:
        return None
    title, text = f"{points} between A and B, not proven", f"If it is real, {needed} would show it."
    if math.isnan(found["more_seeds"]):
        return Step("more_seeds_or_images", title, f"{text} More seeds would not help.", "Add images", href="/data")
    return Step(
        id="more_seeds_or_images",
        title=title,
        text=f"{text} There {'is' if seeds == 1 else 'are'} {things(seeds, 'seed')} now.",
        label="Add seeds",
        load=load,
        set={"seeds": f"{found['more_seeds']:.0f}"},
    )


def validation_and_test(facts: Facts) -> Step | None:
    """Tell when validation and test images disagree by more than chance, if the test images were looked at."""
    side = facts.subject
    if not facts.revealed.intersection(side.setting.keys):
        return None
    shares = {role: _accuracy(side, role) for role in ("select", "test")}
    groups = {role: side.records[0].data.groups.get(role, 0) for role in shares}
    select, test = shares["select"], shares["test"]
    if select is None or test is None or not all(groups.values()):
        return None
    error = math.sqrt(sum(p * (1 - p) / groups[role] for role, p in (("select", select), ("test", test))))
    if not error or abs(select - test) / error <= CHANCE:
        return None
    return Step(
        id="validation_and_test",
        title=f"{side.setting.name}: {percent(select)} right on validation, {percent(test)} on test images",
        text=f"That is {abs(select - test) / error:.1f} standard errors, more than chance. Either choices were made by "
        "the validation images too often, or the test images are of another kind: see which classes differ.",
        label="Compare",
        href=_compare(facts),
    )


def calibrate(facts: Facts) -> Step | None:
    """Propose a temperature where it would make probabilities of an uncalibrated head clearly more honest."""
    side = facts.subject
    if side.setting.members or side.records[0].full_spec["posthoc"]["calibration"]["kind"] != "none":
        return None
    before, after = (_ece(side, when) for when in ("before", "after"))
    if before is None or after is None or before - after < ECE_GAIN:
        return None
    return Step(
        id="calibrate",
        title=f"Probabilities are off by {100 * before:.1f} points on average",
        text=f"With a temperature it would be {100 * after:.1f}. Calibrate {side.setting.name} before you use its "
        "probabilities; its answers stay as they are.",
        label="Calibrate",
        load={"a": side.setting.id, "b": side.setting.id},
        set={"b.posthoc.calibration.kind": "temperature"},
    )


def _accuracy(side: Side, role: str) -> float | None:
    found = [record.evaluations[role].metrics.get("accuracy") for record in side.records if role in record.evaluations]
    return mean(tuple(found))


def _ece(side: Side, when: str) -> float | None:
    evaluations = [record.evaluations["select"] for record in side.records if "select" in record.evaluations]
    return mean(tuple(evaluation.calibration.get(when, {}).get("ece") for evaluation in evaluations))


def _compare(facts: Facts) -> str:
    ids = {"a": facts.a.setting.id, "b": facts.b.setting.id} if facts.b else {}
    return f"/compare?{urlencode({'store': facts.a.setting.store} | ids)}"
