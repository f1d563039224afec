"""Several backbones that share decoded images, and batches that do not fit into memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from seeing import recipe

from frostbench.embedcache.backbones import NotFiniteError
from frostbench.embedcache.checking.verify import cache_info, verify_cache
from frostbench.embedcache.extraction.backbone_group import BackboneGroup, backbone_group
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.extraction.opening import embed_canary
from frostbench.embedcache.preprocess import prepare_image
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.table import read_table


@dataclass
class Colours:
    """Backbone with the mean colour as vector and those of the rows as tokens, and a limited batch size."""

    size: int = 8
    holds: int = 100
    changes: dict[str, object] = field(default_factory=dict)
    with_tokens: bool = False
    batch: int = 4
    prepared: int = 0
    seen: list[int] = field(default_factory=list)
    provenance: Mapping[str, str] = field(default_factory=lambda: {"device": "none"})

    @property
    def recipes(self) -> dict[str, Recipe]:
        names = ["cls", *(["rows"] if self.with_tokens else [])]
        return dict.fromkeys(names, recipe(self.size, **self.changes))

    @property
    def dims(self) -> dict[str, int]:
        return dict.fromkeys(self.recipes, 3)

    @property
    def tokens(self) -> dict[str, int]:
        return {"rows": self.size} if self.with_tokens else {}

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        self.prepared += 1
        return prepare_image(image, recipe(self.size, **self.changes))

    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        assert batch.shape[1:] == (3, self.size, self.size)
        self.seen.append(len(batch))
        if len(batch) > self.holds:
            raise torch.OutOfMemoryError("no room")
        x = batch.float()
        found = {"cls": x.mean(dim=(2, 3))}
        wrong = torch.nonzero(found["cls"][:, 0] == 13).flatten().tolist()
        if wrong:
            raise NotFiniteError("not finite", wrong)
        return found | ({"rows": x.mean(dim=3).transpose(1, 2)} if self.with_tokens else {})


def images(count: int) -> list[np.ndarray]:
    return [np.full((10, 12, 3), 20 + i, np.uint8) for i in range(count)]


def test_a_single_backbone_keeps_the_names_of_its_poolings():
    assert list(backbone_group(Colours()).recipes) == ["cls"]
    assert list(backbone_group({"a": Colours()}).recipes) == ["cls"]


def test_several_have_prefixes_sizes_and_dims_of_their_own():
    both = BackboneGroup({"small": Colours(8), "large": Colours(16, with_tokens=True)})
    assert both.dims == {"small.cls": 3, "large.cls": 3, "large.rows": 3}
    assert both.tokens == {"large.rows": 16}
    assert both.recipes["large.cls"].size == 16
    prepared = [both.prepare(image) for image in images(3)]
    assert [[tuple(x.shape) for x in one] for one in prepared] == [[(3, 8, 8), (3, 16, 16)]] * 3
    found = both.embed(prepared)
    assert found["small.cls"].tolist() == found["large.cls"].tolist() == [[20.0] * 3, [21.0] * 3, [22.0] * 3]
    assert found["large.rows"].shape == (3, 16, 3)


def test_backbones_that_prepare_alike_prepare_once():
    first, second = Colours(8), Colours(8, changes={"model": "other"})
    both = BackboneGroup({"a": first, "b": second})
    assert len(both.prepare(images(1)[0])) == 1
    assert (first.prepared, second.prepared) == (1, 0)


def test_the_mean_counts_for_the_preparation_only_where_it_fills_a_border():
    def ways(crop: str) -> int:
        return len(
            BackboneGroup({str(m): Colours(changes={"crop": crop, "mean": (m,) * 3}) for m in (0.1, 0.2)}).prepare(
                images(1)[0]
            )
        )

    assert (ways("squash"), ways("border")) == (1, 2)


def test_other_backgrounds_and_no_backbone_are_refused():
    with pytest.raises(ValueError, match="the same background for transparent pixels"):
        BackboneGroup({"a": Colours(), "b": Colours(changes={"alpha_background": (0, 0, 0)})})
    with pytest.raises(ValueError, match="at least one backbone"):
        BackboneGroup({})


def test_a_batch_that_does_not_fit_is_halved_until_it_does_and_stays_so():
    one = Colours(holds=3)
    members = backbone_group(one)
    prepared = [members.prepare(image) for image in images(10)]
    found = members.embed(prepared)["cls"]
    assert found[:, 0].tolist() == [20.0 + i for i in range(10)]
    # 10 and 5 do not fit; then batches of two.
    assert one.seen == [10, 5, 2, 2, 2, 2, 2]
    members.embed(prepared[:4])
    assert one.seen[7:] == [2, 2]


def test_a_single_image_that_does_not_fit_is_an_error():
    members = backbone_group(Colours(holds=0))
    with pytest.raises(ValueError, match="one image must fit into the device's memory"):
        members.embed([members.prepare(images(1)[0])])


def test_rows_that_are_not_finite_are_counted_over_the_whole_batch():
    members = backbone_group(Colours(holds=2))
    pixels = images(5)
    pixels[1][:], pixels[4][:] = 13, 13
    with pytest.raises(NotFiniteError) as caught:
        members.embed([members.prepare(image) for image in pixels])
    assert caught.value.rows == [1, 4]


def test_a_cache_of_several_backbones_with_tokens(tmp_path: Path):
    for i in range(7):
        path = tmp_path / "images" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (10 * i, 0, 200)).save(path)
    backbones = {"small": Colours(4), "large": Colours(8, with_tokens=True, holds=2)}
    list(extract(list_folder(tmp_path / "images"), backbones, tmp_path / "cache", shard_rows=3, batch=4))
    assert verify_cache(tmp_path / "cache", lambda: embed_canary(backbones)).ok
    table = read_table(tmp_path / "cache", verify=True)
    # Columns of tokens are large, so they are read only if named.
    assert {name: x.shape for name, x in table.columns.items()} == {"small.cls": (7, 3), "large.cls": (7, 3)}
    named = read_table(tmp_path / "cache", ["large.rows"]).columns["large.rows"]
    assert named.shape == (7, 8, 3)
    np.testing.assert_array_equal(named[:, 0], table.columns["large.cls"])
    stored = read_table(tmp_path / "cache", ["large.rows"], stored=True, verify=True).stored["large.rows"]
    assert stored.shape == (7, 8, 3)
    np.testing.assert_array_equal(stored.read(2, 6), named[2:6])
    np.testing.assert_array_equal(stored.only(np.arange(7) % 2 == 1).read(1, 3), named[[3, 5]])
    assert cache_info(tmp_path / "cache")["columns"]["large.rows"]["tokens"] == 8


def test_tokens_alone_have_the_mean_token_as_canary():
    class Alone(Colours):
        @property
        def recipes(self):
            return {"rows": super().recipes["rows"]}

        def embed(self, batch):
            return {"rows": super().embed(batch)["rows"]}

    one = Alone(with_tokens=True)
    (vector,) = embed_canary(one).values()
    np.testing.assert_allclose(vector, embed_canary(Colours())["cls"], rtol=1e-5)


def test_the_hash_of_a_cache_of_tokens_alone_is_one_whichever_were_read(tmp_path: Path):
    class Two(Colours):
        @property
        def recipes(self):
            own = super().recipes["rows"]
            return {"rows": own, "more": own.model_copy(update={"pooling": "tokens"})}

        @property
        def tokens(self):
            return {"rows": 8, "more": 8}

        def embed(self, batch):
            found = super().embed(batch)["rows"]
            return {"rows": found, "more": found}

    path = tmp_path / "images" / "a" / "0.png"
    path.parent.mkdir(parents=True)
    Image.new("RGB", (9, 9), (10, 0, 200)).save(path)
    list(extract(list_folder(tmp_path / "images"), Two(with_tokens=True), tmp_path / "cache"))
    hashes = {read_table(tmp_path / "cache", names).content_hash for names in (None, ["rows"], ["more"])}
    assert len(hashes) == 1
