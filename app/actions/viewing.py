"""Making, listing and drawing views."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image

from frostbench.app.progress import bar, note, resumable
from frostbench.benchmarks.settings.parsing import SettingsError, load_yaml, parse, split_override
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.backbones.rebuild import rebuild_all, weights_for
from frostbench.embedcache.decode import DecodeError, decode_file
from frostbench.embedcache.extraction.backbone_group import BackboneGroup
from frostbench.embedcache.extraction.events import BatchDone, Finished, Started
from frostbench.embedcache.names import one_line
from frostbench.embedcache.outputs.places import check_file, check_folder
from frostbench.embedcache.outputs.writing import new_file
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.state import read_quarantine, read_state
from frostbench.embedcache.table import read_table
from frostbench.embedcache.views.catalogue import read_policy
from frostbench.embedcache.views.embedding import make_views
from frostbench.embedcache.views.pairs import scaled
from frostbench.embedcache.views.planning import Role, seed_of
from frostbench.embedcache.views.policy import Policy, View
from frostbench.embedcache.views.sets import list_views, views_folder
from frostbench.embedcache.views.transplant import Transplant

SIDE = 160
"""Height in pixels of a picture in a drawing."""


def make_set(
    cache: Path,
    name: str,
    policy: str,
    changes: Sequence[str],
    *,
    count: int,
    role: Role,
    bench: Path | None,
    seed: int,
    weights: Path | None,
    device: str,
    batch: int | None,
    workers: int | None,
) -> None:
    """Make a view set with a progress bar."""
    asked = read_policy(policy, settings_of(changes))
    check_folder(views_folder(cache, name))
    split_spec = SplitSpec() if bench is None else parse(BenchSpec, load_yaml(bench)).split
    table = read_table(cache, stored=True)
    split = load_or_make_split(cache, table, split_spec)
    backbones = rebuild_all(table.recipes, weights=weights_for(table.recipes, weights), device=device)
    events = make_views(
        cache,
        name,
        BackboneGroup(backbones),
        asked,
        split,
        count=count,
        seed=seed,
        role=role,
        batch=batch,
        workers=workers,
    )
    with resumable("finished shards are kept."), bar("embedding views") as progress:
        for event in events:
            if isinstance(event, Started):
                for warning in event.warnings:
                    note(warning)
            elif isinstance(event, BatchDone):
                progress.move(event.n_done, event.n_listed)
            elif isinstance(event, Finished):
                print(f"{views_folder(cache, name)}: {event.n_ok} views by {asked.text}, {event.n_bad} quarantined")
    for row in read_quarantine(views_folder(cache, name))[:5]:
        print(one_line(f"  not embedded: {row['id']}: {row['reason']}"))
    print(f"Train on them: view_sets=[{name}]" if role == "train" else f"Average over them: tta=[{name}]")


def listed(cache: Path) -> Iterator[str]:
    """A line for each view set of a cache.

    Raises:
        CacheError: there is no finished cache.
    """
    read_state(cache)  # says where there is no cache
    names = list_views(cache)
    if not names:
        yield f"{cache} has no view sets. Make one: frostbench views make {cache} NAME --policy flip"
    for name in names:
        state, manifest = read_state(views_folder(cache, name))
        about = state["source"]
        policy = read_policy(about["policy"]["kind"], {k: v for k, v in about["policy"].items() if k != "kind"})
        yield (
            f"{name}\t{about['role']}\t{manifest['n_ok']} views, {about['count']} of each image\t{policy.text} seed "
            f"{about['seed']}"
        )


def settings_of(changes: Sequence[str]) -> dict[str, Any]:
    """The settings that `NAME=VALUE` texts state, values as in YAML.

    >>> settings_of(["alpha=0.5", "mirrored=true"])
    {'alpha': 0.5, 'mirrored': True}

    Raises:
        SettingsError: a text has no equals sign.
    """
    wrong = [text for text in changes if "=" not in text]
    if wrong:
        raise SettingsError(f"a setting is written NAME=VALUE, however: {wrong[0]!r} came.")
    return dict(split_override(text) for text in changes)


def draw(images: Sequence[Path], kind: str, changes: Sequence[str], out: Path, *, count: int, seed: int) -> None:
    """Write a PNG with a row for each image: itself, then its views.

    Raises:
        ValueError: the policy is unknown or needs a second image; an image cannot be read; or the file is no PNG, or
            cannot be written.
    """
    policy = read_policy(kind, settings_of(changes))
    check_file(out, (".png",), "a drawing of views")
    if policy.needs_partner and len(images) < 2:
        raise ValueError(f"{policy.text} makes a view of two images, however: one came. Name another.")
    pixels = [_pixels(path) for path in images]
    rows = []
    for place, image in enumerate(pixels):
        partner = pixels[(place + 1) % len(pixels)]
        shown = min(count, policy.views) if policy.is_fixed else count  # type: ignore[attr-defined]
        views = [
            _view(policy, image, partner, seed_of(seed, str(images[place]), number), number) for number in range(shown)
        ]
        rows.append(_row([image, *(view.image for view in views)]))
    width = max(row.shape[1] for row in rows)
    sheet = np.concatenate([np.pad(r, ((0, 8), (0, width - r.shape[1]), (0, 0)), constant_values=255) for r in rows])
    with new_file(out) as partial:
        Image.fromarray(sheet[:-8]).save(partial, "png")


def _pixels(path: Path) -> np.ndarray:
    try:
        return decode_file(path)
    except DecodeError as error:
        raise ValueError(
            f"views are drawn of image files, however: {path}: {error}. Is the path right? Name another."
        ) from error


def _view(policy: Policy, image: np.ndarray, partner: np.ndarray, seed: int, number: int) -> View:
    if isinstance(policy, Transplant):
        # Without a backbone: the middle of the image stands for what is salient.
        place = np.abs(np.linspace(-1, 1, policy.grid))
        return policy(image, partner, -(place[:, None] ** 2 + place[None] ** 2))
    made = policy(image, partner, seed, number) if policy.needs_partner else policy(image, seed, number)  # type: ignore[operator]
    return cast(View, made)


def _row(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Pictures of one height side by side, with a gap between them."""
    sized = [scaled(p, SIDE, max(1, round(SIDE * p.shape[1] / p.shape[0]))) for p in pictures]
    gap = np.full((SIDE, 8, 3), 255, np.uint8)
    parts = [part for picture in sized for part in (picture, gap)]
    return np.concatenate(parts[:-1], axis=1)
