import json

import pandas as pd
import pytest


def test_the_command_prints_tables_and_writes_a_page(frostbench, bench_file, tmp_path):
    frostbench("bench", "run", bench_file)
    out = tmp_path / "out" / "page.html"
    said = frostbench("calibration", bench_file, "--baseline", "weighted", "--out", out)
    assert said.status == 0, said.err
    assert "calibration on validation rows (select), baseline 'weighted'" in said.out
    assert "after temperature scaling" in said.out
    assert "<svg" in out.read_text("utf-8")
    assert set(pd.read_csv(out.with_suffix(".csv"))["row"]) == {"weighted", "plain", "solved"}
    assert json.loads(out.with_suffix(".json").read_text())[0]["baseline"] == "weighted"


def test_test_rows_are_judged_where_asked_for_and_kept_in_the_store(frostbench, bench_file):
    frostbench("bench", "run", bench_file)
    said = frostbench("calibration", bench_file, "--on", "test")
    assert said.status == 0, said.err
    assert "calibration on TEST rows" in said.out
    assert (bench_file.parent / "results" / "calibration" / "digits-test.html").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--out", "report.pdf"], "a calibration report ends in .html, however: 'report.pdf' came"),
        (["--baseline", "ful"], "got 'ful'"),
        (["--set", "seeds=[0, 7]"], "lacks 1 of 2 of row 'plain'"),
        (["--ood", "CACHE"], "Images for OOD detection must not be in the bench's cache"),
    ],
)
def test_mistakes_are_told_in_words(frostbench, bench_file, cache, words, told):
    frostbench("bench", "run", bench_file)
    said = frostbench("calibration", bench_file, *({"CACHE": cache}.get(word, word) for word in words))
    assert said.status == 2
    assert told in said.err
