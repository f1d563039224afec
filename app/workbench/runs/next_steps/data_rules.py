"""Proposals about the images: near-copies, labels, groups and small classes."""

from urllib.parse import urlencode

from frostbench.app.workbench.runs.next_steps.step import Facts, Step, percent, things

FEW_IMAGES = 20
"""Number of training images from which the score of a class begins to mean something."""
SECONDS_PER_LABEL = 8
WORST = 30
NEAR_COPIES = "0.98"
"""Cosine from which images are kept on one side of the split."""
SHOWN = 3


def near_copies(facts: Facts) -> Step | None:
    """Propose to keep near-copies on one side where held-out images have one in training."""
    found, held = facts.copies or (0, 0)
    if not found:
        return None
    has = "has" if found == 1 else "have"
    return Step(
        id="near_copies",
        title=f"{found:,} of {things(held, 'held-out image')} {has} a near-copy in training",
        text=f"That is {percent(found / held)} in the default split: scores may be too good. Keep copies on one side.",
        label="Fix the split",
        load=_sides(facts),
        set={"split.duplicates": NEAR_COPIES},
    )


def labels_to_check(facts: Facts) -> Step | None:
    """Propose to look at the labels that disagree with the images around them."""
    found, images = facts.suspects or 0, sum(facts.subject.records[0].data.rows.values())
    if not found:
        return None
    number = min(WORST, found)
    minutes = max(1, round(number * SECONDS_PER_LABEL / 60))
    checked = f" {things(facts.checked, 'label')} checked so far." if facts.checked else ""
    return Step(
        id="labels_to_check",
        title=f"{things(found, 'label')} {'disagrees' if found == 1 else 'disagree'} with the images around them",
        text=f"That is {percent(found / images)}: wrong, or only hard. The worst {number} take about "
        f"{things(minutes, 'minute')}.{checked}",
        label="Review",
        href=_data(facts, "#labels"),
    )


def unchecked_data(facts: Facts) -> Step | None:
    """Propose to open the tab Data, which compares the images with each other, where that was not done."""
    if facts.suspects is not None or not facts.cache:
        return None
    images = sum(facts.subject.records[0].data.rows.values())
    return Step(
        id="unchecked_data",
        title=f"{things(images, 'image')} {'has' if images == 1 else 'have'} not been compared with each other",
        text="The tab Data looks for near-copies across the split and for labels to check; it has not been opened "
        "since the server was started.",
        label="Check the data",
        href=_data(facts),
    )


def no_groups(facts: Facts) -> Step | None:
    """Propose to state groups where every image counts as independent."""
    data = facts.subject.records[0].data
    if not any(warning.startswith("No groups are given") for warning in data.warnings):
        return None
    held = data.rows.get("select", 0)
    return Step(
        id="no_groups",
        title=f"No groups: {things(held, 'validation image')} count as independent",
        text="If several images show the same thing, scores and intervals are too good. State groups when embedding, "
        "for example by file name: the tab Data has the option.",
        label="How to",
        href=_data(facts),
    )


def small_classes(facts: Facts) -> Step | None:
    """Name the classes with so few training images that their score means little."""
    data = facts.subject.records[0].data
    counts = sorted(
        (count, name)
        for number, (name, count) in enumerate(zip(data.class_names, data.train_counts, strict=True))
        if count < FEW_IMAGES and number not in data.background
    )
    if not counts:
        return None
    named = ", ".join(f"{name} ({count})" for count, name in counts[:SHOWN])
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    return Step(
        id="small_classes",
        title=f"{len(counts)} of {len(data.class_names)} classes with fewer than {FEW_IMAGES} training images",
        text=f"{named}{more}: the scores of {'this class' if len(counts) == 1 else 'these classes'} mean little. Add "
        "images, or merge classes.",
        label="See classes",
        href=_data(facts),
    )


def _sides(facts: Facts) -> dict[str, str]:
    sides = {"a": facts.a.setting} | ({"b": facts.b.setting} if facts.b else {})
    return {side: setting.id for side, setting in sides.items() if not setting.members}


def _data(facts: Facts, anchor: str = "") -> str:
    return f"/data{'?' + urlencode({'cache': facts.cache}) if facts.cache else ''}{anchor}"
