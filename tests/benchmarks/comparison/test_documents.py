import shutil
import subprocess

import pytest
from short_benches import bench_of

from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.comparison.documents import to_latex, to_markdown
from frostbench.benchmarks.runs.runner import bench_rows, run_bench


@pytest.fixture
def comparison(cache):
    bench = bench_of(cache, toggles={"a|b_c & 5 % {x}~^\\": {"preset": "lda"}})
    list(run_bench(bench))
    return compare(cache.parent / "runs", bench_rows(bench)[0].rows, title="toy on #1", resamples=50)


def test_markdown_has_one_line_per_row_and_one_cell_per_column(comparison):
    caption, _, head, rule, *lines = to_markdown(comparison).splitlines()
    assert caption.startswith("toy on #1: ")
    assert head.startswith("| row | macro_f1_fg | difference | 95 % interval | verdict | ")
    assert rule.count("---") == head.count(" | ") + 1
    assert [line.replace("\\|", "").count("|") for line in lines] == [head.count("|")] * 2
    assert f"{comparison.line('baseline', 'ece')['value']:.4f}" in lines[0]
    assert lines[1].startswith("| a\\|b_c & 5 % {x}~^\\\\ |")


def test_latex_escapes_names(comparison):
    text = to_latex(comparison)
    assert "toy on \\#1" in text
    assert r"a|b\_c \& 5 \% \{x\}\textasciitilde{}\textasciicircum{}\textbackslash{}" in text
    assert text.count("\\toprule") == text.count("\\bottomrule") == 1
    assert "95 \\% interval" in text


def test_latex_compiles(comparison, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("there is no pdflatex")
    document = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}%s\\end{document}"
    (tmp_path / "a.tex").write_text(document % to_latex(comparison))
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    assert subprocess.run(words, cwd=tmp_path, check=False).returncode == 0
