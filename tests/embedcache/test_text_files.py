"""Text files in common encodings, in every function that reads them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from frostbench.benchmarks.settings.parsing import SettingsError, load_yaml
from frostbench.embedcache.exchange.external import import_vectors
from frostbench.embedcache.plain_text import decode_text
from frostbench.embedcache.sources.source import list_source
from frostbench.embedcache.splits.given_roles import read_roles
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import read_table

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


def manifest_labels(folder: Path, write: Callable[[str], bytes]) -> list[str]:
    (folder / "1.png").write_bytes(b"x")
    (folder / "m.csv").write_bytes(write("path,label\n1.png,größe\n2.png,日本\n"))
    return [item.label for item in list_source(folder / "m.csv").items]


def imported_labels(folder: Path, write: Callable[[str], bytes]) -> list[str]:
    np.save(folder / "x.npy", np.eye(2, 3, dtype=np.float32) + 1)
    (folder / "m.csv").write_bytes(write("id,label\n1,größe\n2,日本\n"))
    import_vectors(folder / "x.npy", folder / "m.csv", folder / "c", "m")
    table = read_table(folder / "c")
    return [table.class_names[i] for i in table.labels]


def role_ids(folder: Path, write: Callable[[str], bytes]) -> list[str]:
    (folder / "r.csv").write_bytes(write("id,role\ngröße,train\n日本,test\n"))
    return read_roles(folder / "r.csv")[0]


def listed_paths(folder: Path, write: Callable[[str], bytes]) -> list[str]:
    for place in ("anno", "images"):
        (folder / place).mkdir()
    for name in ("größe.jpg", "日本.jpg"):
        (folder / "images" / name).write_bytes(b"x")
    (folder / "anno" / "train.txt").write_bytes(write("größe.jpg 1\n"))
    (folder / "anno" / "test.txt").write_bytes(write("日本.jpg 1\n"))
    return [item.id.removesuffix(".jpg") for item in list_source(folder).items]


def setting_names(folder: Path, write: Callable[[str], bytes]) -> list[str]:
    (folder / "prior.yaml").write_bytes(write("größe: 0.5\n日本: 0.5\n"))
    return list(load_yaml(folder / "prior.yaml"))


ENTRANCES = [manifest_labels, imported_labels, role_ids, listed_paths, setting_names]


@pytest.mark.parametrize("read", ENTRANCES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_unicode_in_any_form_is_read(
    tmp_path: Path, read: Callable[[Path, Callable[[str], bytes]], list[str]], encoding: str
) -> None:
    assert read(tmp_path, lambda text: text.encode(encoding)) == ["größe", "日本"]


@pytest.mark.parametrize("read", ENTRANCES)
def test_what_windows_saves_is_named_with_its_place(
    tmp_path: Path, read: Callable[[Path, Callable[[str], bytes]], list[str]]
) -> None:
    def write(text: str) -> bytes:
        return text.replace("日本", "x").encode("cp1252")

    with pytest.raises(
        ValueError, match=r"in .* byte \d+ .*, in line \d, is 0xf6\. .*'.*größe.*'\. Save it with the enc"
    ):
        read(tmp_path, write)


def test_what_is_no_text_is_reported() -> None:
    with pytest.raises(ValueError, match=r"a list must be a text file, but x.csv holds NUL characters, the first at"):
        decode_text(b"path,label\n1.png,a\0b\n" + b"2.png,c\n" * 9, "a list", Path("x.csv"))
    with pytest.raises(
        ValueError, match=r"is not valid UTF-16, which its first bytes indicate. Save it with the encoding UTF-8"
    ):
        decode_text("path,label\n".encode("utf-16") + b"x", "a list", Path("x.csv"))


def test_errors_keep_the_type_of_their_entrance(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"id,role\n\xe9,train\n")
    with pytest.raises(CacheError, match=r"a role file must be UTF-8 text.* Correct roles_from"):
        read_roles(tmp_path / "r.csv")
    (tmp_path / "b.yaml").write_bytes(b"name: \xe9\n")
    with pytest.raises(SettingsError, match=r"a settings file must be UTF-8 text, but in .* in line 1, is 0xe9"):
        load_yaml(tmp_path / "b.yaml")


def test_line_breaks_in_quoted_cells_of_a_long_file(tmp_path: Path) -> None:
    n = 40_000
    (tmp_path / "0.png").write_bytes(b"x")
    rows = "".join(f'{i}.png,"two\nlines, ""{i % 7}""","note\r\nof several\nlines {i}"\n' for i in range(n))
    (tmp_path / "m.csv").write_text("path,label,note\n" + rows, newline="")
    assert (tmp_path / "m.csv").stat().st_size > 2 * 2**20
    listing = list_source(tmp_path / "m.csv")
    assert len(listing.items) == n
    assert listing.class_names == tuple(f'two\nlines, "{i}"' for i in range(7))
    assert {item.id: item.label for item in listing.items}["39999.png"] == f'two\nlines, "{39999 % 7}"'
