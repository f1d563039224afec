"""The file of label corrections: what is read, what is added, and which line of an image counts."""

import threading

import pytest

from frostbench.embedcache.labels.corrections import (
    Correction,
    LabelError,
    Ruling,
    add_corrections,
    read_corrections,
    rulings,
)

ODD = Correction("a,b/1.png", 'oak "red"', "=elm\nash", "Ana, Bo", "2026-01-02T03:04:05+00:00")


def test_what_is_added_is_read_back(tmp_path):
    path = tmp_path / "new" / "labels.csv"
    add_corrections(path, [ODD, Correction("2", "oak", "")])
    add_corrections(path, [Correction("3", "007", "NA", "Bo")])
    found = read_corrections(path)
    assert found[0] == ODD
    assert [one[:4] for one in found[1:]] == [("2", "oak", "", ""), ("3", "007", "NA", "Bo")]
    assert all(one.when.endswith("+00:00") for one in found)
    assert path.read_text().splitlines()[0] == "id,old,new,who,when"


def test_lines_and_columns_of_others_stay(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("why,id,old,new,who,when\nblurred,1,oak,elm,,")
    add_corrections(path, [Correction("2", "elm", "oak", "", "now")])
    assert path.read_text() == "why,id,old,new,who,when\nblurred,1,oak,elm,,\n,2,elm,oak,,now\n"


def test_who_and_when_are_optional_to_read_and_needed_to_add(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,old,new\n1,oak,elm\n")
    assert read_corrections(path) == (Correction("1", "oak", "elm"),)
    with pytest.raises(LabelError, match=r"needs the column who to add to it, but .*labels.csv lacks it. Add it."):
        add_corrections(path, [Correction("2", "oak", "elm")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,new\n1,elm\n", r"needs the columns id, old and new .*, but .* lacks old. Add them."),
        ("id,old,new\n1,oak,elm\n,oak,elm\n", r"line 3 of .* has none. Fill it in, or delete the line."),
    ],
)
def test_files_that_lack_something_are_refused(tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(LabelError, match=message):
        read_corrections(tmp_path / "labels.csv")


def test_missing_files_and_other_endings_are_refused(tmp_path):
    with pytest.raises(LabelError, match=r"must be a file, but .*none.csv does not exist. Check the path."):
        read_corrections(tmp_path / "none.csv")
    with pytest.raises(LabelError, match=r"must be a .csv file to add to it, got 'labels.parquet'"):
        add_corrections(tmp_path / "labels.parquet", [ODD])
    with pytest.raises(LabelError, match=r"needs an id, got Correction\(id='', old='oak'"):
        add_corrections(tmp_path / "labels.csv", [Correction("", "oak", "elm")])
    assert not list(tmp_path.iterdir())


def test_a_file_in_another_encoding_is_read_but_not_added_to(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes("id,old,new,who,when\n1,größe,elm,,\n".encode("utf-16"))
    assert read_corrections(path)[0].old == "größe"
    with pytest.raises(LabelError, match=r"must be UTF-8 to add to it"):
        add_corrections(path, [ODD])


def test_several_writers_lose_no_line(tmp_path):
    path = tmp_path / "labels.csv"

    def add(who):
        for number in range(10):
            add_corrections(path, [Correction(f"{who}-{number}", "oak", "elm", who)])

    threads = [threading.Thread(target=add, args=(who,)) for who in "ABCD"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_corrections(path)
    assert sorted(one.id for one in found) == sorted(f"{who}-{number}" for who in "ABCD" for number in range(10))
    for who in "ABCD":
        assert [one.id for one in found if one.who == who] == [f"{who}-{number}" for number in range(10)]


def test_the_last_line_of_an_image_counts():
    lines = [Correction("1", "oak", "elm"), Correction("2", "oak", "ash"), Correction("1", "elm", "oak")]
    assert rulings(lines) == {"1": Ruling("oak", frozenset({"oak", "elm"})), "2": Ruling("ash", frozenset({"oak"}))}
