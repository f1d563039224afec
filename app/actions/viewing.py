"""Making, listing and drawing view sets."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image

from frostbench.app.progress import bar, note, resumable
from frostbench.benchmarks.settings.nouns import with_noun
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
"""Height of a picture in a drawing, in pixels."""


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
    """Make a view set with a progress bar; see `make_views` for the arguments."""
    chosen = read_policy(policy, read_settings(changes))
    check_folder(views_folder(cache, name))
    split_spec = SplitSpec() if bench is None else parse(BenchSpec, load_yaml(bench)).split
    table = read_table(cache, stored=True)
    split = load_or_make_split(cache, table, split_spec)
    backbones = rebuild_all(table.recipes, weights=weights_for(table.recipes, weights), device=device)
    events = make_views(
        cache,
        name,
        BackboneGroup(backbones),
        chosen,
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
                made = f"{with_noun(event.n_ok, 'view')} by {chosen.text}"
                print(f"{views_folder(cache, name)}: {made}, {event.n_bad} quarantined")
    for row in read_quarantine(views_folder(cache, name))[:5]:
        print(one_line(f"  not embedded: {row['id']}: {row['reason']}"))
    if role == "train":
        print(f"To train on these views: --set view_sets=[{name}]")
    else:
        print(f"To average predictions over these views: --set tta=[{name}]")


def view_set_lines(cache: Path) -> Iterator[str]:
    """Yield one line per view set of a cache.

    Raises:
        CacheError: the cache does not exist or is unfinished.
    """
    read_state(cache)  # raises if there is no cache
    names = list_views(cache)
    if not names:
        yield f"{cache} has no view sets. Make one: frostbench views make {cache} NAME --policy flip"
    for name in names:
        state, manifest = read_state(views_folder(cache, name))
        source = state["source"]
        policy = read_policy(source["policy"]["kind"], {k: v for k, v in source["policy"].items() if k != "kind"})
        views = f"{with_noun(manifest['n_ok'], 'view')}, {source['count']} per image"
        yield f"{name}\t{source['role']}\t{views}\t{policy.text} seed {source['seed']}"


def read_settings(changes: Sequence[str]) -> dict[str, Any]:
    """Parse `NAME=VALUE` texts, values as YAML.

    >>> read_settings(["alpha=0.5", "mirrored=true"])
    {'alpha': 0.5, 'mirrored': True}

    Raises:
        SettingsError: a text has no equals sign.
    """
    wrong = [text for text in changes if "=" not in text]
    if wrong:
        raise SettingsError(f"A setting must be written NAME=VALUE, got {wrong[0]!r}.")
    return dict(split_override(text) for text in changes)


def draw(images: Sequence[Path], kind: str, changes: Sequence[str], out: Path, *, count: int, seed: int) -> None:
    """Write a PNG with one row per image: the image, then its views.

    Raises:
        ValueError: the policy is unknown or needs a second image, an image cannot be read, or the file does not end in
            .png or cannot be written.
    """
    policy = read_policy(kind, read_settings(changes))
    check_file(out, (".png",), "a drawing of views")
    if policy.needs_partner and len(images) < 2:
        raise ValueError(f"{policy.text} mixes two images, got one. Give another image.")
    pixels = [_pixels(path) for path in images]
    rows = []
    for index, image in enumerate(pixels):
        partner = pixels[(index + 1) % len(pixels)]
        n_views = min(count, policy.views) if policy.is_fixed else count  # type: ignore[attr-defined]
        views = [
            _view(policy, image, partner, seed_of(seed, str(images[index]), number), number)
            for number in range(n_views)
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
        raise ValueError(f"Cannot read image {path}: {error}. Check the path, or give another image.") from error


def _view(policy: Policy, image: np.ndarray, partner: np.ndarray, seed: int, number: int) -> View:
    if isinstance(policy, Transplant):
        # Without a backbone there is no saliency map, so the centre of the image counts as salient.
        offset = np.abs(np.linspace(-1, 1, policy.grid))
        return policy(image, partner, -(offset[:, None] ** 2 + offset[None] ** 2))
    view = policy(image, partner, seed, number) if policy.needs_partner else policy(image, seed, number)  # type: ignore[operator]
    return cast(View, view)


def _row(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Scale pictures to one height and join them side by side with gaps."""
    sized = [scaled(p, SIDE, max(1, round(SIDE * p.shape[1] / p.shape[0]))) for p in pictures]
    gap = np.full((SIDE, 8, 3), 255, np.uint8)
    parts = [part for picture in sized for part in (picture, gap)]
    return np.concatenate(parts[:-1], axis=1)
