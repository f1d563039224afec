"""Only changed, missing and repaired images and damaged shards are embedded again."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from colour_images import files_of, make_folder, run
from PIL import Image

from frostbench.embedcache.extraction import pipeline
from frostbench.embedcache.extraction.events import ShardDone
from frostbench.embedcache.extraction.extract import QuarantineError
from frostbench.embedcache.remarks import Remarks
from frostbench.embedcache.storage.store import bad_path, read_bad, shard_path
from frostbench.embedcache.table import read_table


def test_an_image_too_large_for_memory_is_quarantined_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = make_folder(tmp_path / "images", 3)
    run(listing, tmp_path / "whole")
    real, largest = pipeline.decode_image, (tmp_path / "images/a/002.png").read_bytes()

    def small(data: bytes, **options: object) -> tuple[np.ndarray, Remarks]:
        if data == largest:
            raise MemoryError
        return real(data, **options)

    monkeypatch.setattr(pipeline, "decode_image", small)
    assert run(listing, tmp_path / "cache")[-1].n_bad == 1
    assert "memory" in read_bad(tmp_path / "cache", 0)[0]["reason"]
    monkeypatch.undo()
    assert run(listing, tmp_path / "cache")[-1].n_bad == 0
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("finished", [True, False])
def test_changed_and_missing_images_are_embedded_anew(tmp_path: Path, finished: bool) -> None:
    listing, stop_calls = make_folder(tmp_path / "images", 17), iter(range(100))
    run(listing, tmp_path / "cache", stop=lambda: not finished and next(stop_calls) == 4)
    # Shard 0 is a/000 … a/008, shard 1 a/010 … b/001; stopped after the first batch of shard 2.
    Image.new("RGB", (8, 8), (200, 201, 202)).save(tmp_path / "images/a/012.png")
    (tmp_path / "images/b/001.png").unlink()
    events = run(listing, tmp_path / "cache")
    assert any(
        "changed or disappeared since they were embedded: 2 (a/012.png, b/001.png)" in w for w in events[0].warnings
    )
    assert [e.shard for e in events if isinstance(e, ShardDone)] == ([1] if finished else [1, 2, 3])
    assert events[-1].n_bad == 1
    table = read_table(tmp_path / "cache", verify=True)
    assert table.columns["cls"][list(table.ids).index("a/012.png")].tolist() == [200, 201, 202]
    run(listing, tmp_path / "whole")
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def flip_last_vector(cache: Path) -> None:
    path = shard_path(cache, 1)
    data = bytearray(path.read_bytes())
    place = data.rindex(np.array([12, 243, 7], np.float16).tobytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    "damage",
    [
        flip_last_vector,
        lambda cache: shard_path(cache, 1).write_bytes(b"PAR1"),
        lambda cache: shard_path(cache, 1).write_bytes(shard_path(cache, 0).read_bytes()),
        lambda cache: bad_path(cache, 1).unlink(),
        lambda cache: bad_path(cache, 1).write_text("[]"),
        lambda cache: bad_path(cache, 1).write_text("[3]"),
    ],
)
def test_a_damaged_shard_is_embedded_anew(tmp_path: Path, damage: Callable[[Path], object], finished: bool) -> None:
    listing = make_folder(tmp_path / "images", 17, bad=frozenset({10}))
    run(listing, tmp_path / "whole")
    run(listing, tmp_path / "cache")
    if not finished:
        (tmp_path / "cache" / "manifest.json").unlink()
    damage(tmp_path / "cache")
    events = run(listing, tmp_path / "cache")
    assert any("Damaged shards: 1 (part-00001)" in warning for warning in events[0].warnings)
    assert [e.shard for e in events if isinstance(e, ShardDone)] == [1]
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def test_a_repaired_image_leaves_the_quarantine(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 17, bad=frozenset({3, 10}))
    with pytest.raises(QuarantineError, match="Repair the files and run the same command again"):
        run(listing, tmp_path / "cache", strict=True)
    broken = hashlib.sha256(b"<html>not found</html>").hexdigest()
    assert [row["sha256"] for i in range(4) for row in read_bad(tmp_path / "cache", i)] == [broken, broken]
    Image.new("RGB", (8, 8), (10, 245, 7)).save(tmp_path / "images/a/010.png")
    events = run(listing, tmp_path / "cache")
    assert any("Quarantined images" in w and ": 1 (a/010.png)" in w for w in events[0].warnings)
    assert [e.shard for e in events if isinstance(e, ShardDone)] == [1]
    assert (events[-1].n_bad, events[-1].n_worked) == (1, 1)
    run(listing, tmp_path / "whole")
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")
