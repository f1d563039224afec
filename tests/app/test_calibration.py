import json

import pandas as pd
import pytest


def test_the_command_prints_tables_and_writes_a_page(frostbench, bench_file, tmp_path):
    frostbench("bench", "run", bench_file)
    out = tmp_path / "out" / "page.html"
    result = frostbench("calibration", bench_file, "--baseline", "weighted", "--out", out)
    assert result.status == 0, result.err
    assert "calibration on validation rows (select), baseline 'weighted'" in result.out
    assert "after temperature scaling" in result.out
    assert "<svg" in out.read_text("utf-8")
    assert set(pd.read_csv(out.with_suffix(".csv"))["row"]) == {"weighted", "plain", "solved"}
    assert json.loads(out.with_suffix(".json").read_text())[0]["baseline"] == "weighted"


def test_test_rows_are_measured_on_request(frostbench, bench_file):
    frostbench("bench", "run", bench_file)
    result = frostbench("calibration", bench_file, "--on", "test")
    assert result.status == 0, result.err
    assert "calibration on TEST rows" in result.out
    assert (bench_file.parent / "results" / "calibration" / "digits-test.html").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "report.pdf"], "a calibration report must end in .html, got 'report.pdf'"),
        (["--baseline", "ful"], "got 'ful'"),
        (["--set", "seeds=[0, 7]"], "lacks 1 of 2 runs of row 'plain'"),
        (["--ood", "CACHE"], "Images for OOD detection must not be in the bench's cache"),
    ],
)
def test_errors_are_explained(frostbench, bench_file, cache, words, message):
    frostbench("bench", "run", bench_file)
    result = frostbench("calibration", bench_file, *({"CACHE": cache}.get(word, word) for word in words))
    assert result.status == 2
    assert message in result.err
