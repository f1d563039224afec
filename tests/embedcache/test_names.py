"""Blank names and names that look alike, from folders and from tables."""

from pathlib import Path

import pytest

from frostbench.embedcache.names import alike_names, check_names, is_blank, seen_as
from frostbench.embedcache.sources.source import list_source

BLANKS = ["", " ", "\u00a0", "\u200b", "\ufeff", "\u2003\u200d\u2060", "\t", "\u3164", "\u00ad"]
LOOKS_LIKE_OAK = ["oak", "Oak", " oak ", "oak\u00a0", "oak\u200b", "o\u00adak", "oak\ufe0f", "\ufeffoak", "oak\u200e"]


@pytest.mark.parametrize("name", BLANKS)
def test_names_of_which_nothing_can_be_seen_are_no_classes(tmp_path: Path, name: str) -> None:
    assert is_blank(name)
    with pytest.raises(ValueError, match="must have a visible character, but labels gives "):
        check_names(["oak", name], "labels")
    (tmp_path / "1.png").write_bytes(b"x")
    (tmp_path / "m.csv").write_text(f'path,label\n1.png,oak\n2.png,"{name}"\n')
    listing = list_source(tmp_path / "m.csv")
    assert listing.class_names == ("oak",)
    assert [item.label for item in listing.items] == ["oak", ""]
    assert "1 image has no label: it is embedded and shown, but neither split nor trained on." in listing.warnings
    if name:
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.png").write_bytes(b"x")
        with pytest.raises(ValueError, match="class names must have a visible character"):
            list_source(tmp_path / "photos")


@pytest.mark.parametrize("name", LOOKS_LIKE_OAK[1:])
def test_names_that_look_alike_are_kept_and_the_pair_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "1.png").write_bytes(b"x")
    (tmp_path / "m.csv").write_text(f"path,label\n1.png,oak\n2.png,{name}\n", encoding="utf-8")
    listing = list_source(tmp_path / "m.csv")
    assert set(listing.class_names) == {"oak", name}
    [warning_text] = [warning for warning in listing.warnings if "count as separate classes" in warning]
    assert " and ".join(map(ascii, sorted(["oak", name]))) in warning_text


def test_inner_blanks_and_accents_count_as_alike_and_letters_do_not() -> None:
    assert seen_as("red\u00a0 oak") == seen_as("Red oak")
    assert seen_as("e\u0301rable") == seen_as("\u00e9rable")
    assert alike_names(["oak", "oaks", "0ak", "red oak", "redoak", "x2", "x²"]) == []
    many = alike_names([f"{letter}{blank}" for letter in "abcdefg" for blank in ("", " ")])
    assert many[0].count(" and ") == 6
    assert " …" in many[0]
