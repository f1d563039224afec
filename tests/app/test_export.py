import json

import pandas as pd
import pytest

from frostbench.heads.bundle.export import load


@pytest.fixture(scope="module")
def ran(bench_file, tmp_path_factory):
    """The bench with a store of its own, with every run in it."""
    from frostbench.app.actions.benches import read_bench, run_rows

    own = tmp_path_factory.mktemp("export") / "bench.yaml"
    own.write_text(bench_file.read_text().replace(str(bench_file.parent), str(own.parent)))
    run_rows(read_bench(str(own), []))
    return own


def test_a_refitted_head_is_exported_and_predicts(frostbench, ran, photos, tmp_path):
    plain = frostbench("export", ran, "weighted", "--out", tmp_path / "plain", "--no-refit")
    result = frostbench("export", ran, "weighted", "--out", tmp_path / "refit")
    assert result.status == 0, result.err
    before, after = (json.loads((tmp_path / name / "card.json").read_text()) for name in ("plain", "refit"))
    rows = sum(before["facts"]["data"]["rows"][role] for role in ("train", "select"))
    assert result.out.strip() == (
        plain.out.strip().replace(str(tmp_path / "plain"), str(tmp_path / "refit")) + f", refitted to {rows} rows"
    )
    assert (sum(after["priors"]["counts"]), after["facts"]["refit"]["rows"]) == (rows, rows)
    assert after["facts"]["refit"]["of"] == before["facts"]["key"]
    assert after["facts"]["metrics_before"] == before["facts"]["metrics"]
    assert "metrics" not in after["facts"]
    assert after["recipes"] == before["recipes"]
    assert load(tmp_path / "refit").canary is not None
    predicted = frostbench("predict", tmp_path / "refit", photos / "digit 8", "--out", tmp_path / "new.csv")
    assert predicted.status == 0, predicted.err
    assert len(pd.read_csv(tmp_path / "new.csv")) == 12


def test_what_cannot_be_refitted_is_told_in_words(frostbench, ran, tmp_path):
    few = ("--set", "seeds=[0]", "--set", f"store={tmp_path / 'runs'}", "--set", "toggles={}")
    solved = ("--set", "base={'head.classifier.kind': logreg}")
    for split, message in (
        ("split={folds: 3}", "with this cross-validated split the head is already fitted to all rows"),
        ("split={select: 0}", "this split has no validation rows"),
    ):
        words = (*few, *solved, "--set", split)
        assert frostbench("bench", "run", ran, *words).status == 0
        result = frostbench("export", ran, "plain", "--out", tmp_path / "head", "--refit", *words)
        assert result.status == 2
        assert message in result.err
        assert not (tmp_path / "head").exists()
        result = frostbench("export", ran, "plain", "--out", tmp_path / "as-it-is" / split[7:10], *words)
        assert result.status == 0, result.err
        assert f", not refitted: A refit adds the validation rows to the training rows, but {message}" in result.out


def test_ensembles_are_run_compared_exported_and_predict(frostbench, ran, cache, photos, tmp_path):
    words = ("--set", "ensembles={mean: [weighted, solved]}")
    run = frostbench("bench", "run", ran, *words)
    assert run.status == 0, run.err
    assert run.out.count("mean, seed ") == 2
    assert "(mean of 2 heads)" in run.out
    assert "digits: 2 runs trained, 6 found" in run.out
    compared = frostbench("compare", ran, *words, "--out", tmp_path / "compare")
    assert compared.status == 0, compared.err
    assert "mean" in set(pd.read_csv(tmp_path / "compare" / "table.csv")["row"])
    result = frostbench("export", ran, "mean", "--out", tmp_path / "head", *words)
    assert result.status == 0, result.err
    assert len(load(tmp_path / "head").head.members) == 2
    for source in (photos / "digit 8", cache):
        predicted = frostbench("predict", tmp_path / "head", source, "--prior", "uniform", "--out", tmp_path / "p.csv")
        assert predicted.status == 0, predicted.err
        table = pd.read_csv(tmp_path / "p.csv")
        assert table[[f"p:digit {d}" for d in (0, 1, 8)]].sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-5)


def test_all_seeds_of_a_row_are_exported_as_one_bundle(frostbench, ran, cache, tmp_path):
    result = frostbench("export", ran, "plain", "--out", tmp_path / "all", "--seeds", "all", "--no-refit")
    assert result.status == 0, result.err
    assert result.out.strip() == f"{tmp_path / 'all'}: row 'plain', mean of seeds 0, 1"
    frostbench("predict", tmp_path / "all", cache, "--out", tmp_path / "mean.csv")
    each = []
    for number in (0, 1):
        out = tmp_path / f"{number}.csv"
        assert frostbench("predict", tmp_path / "all" / f"member-{number}", cache, "--out", out).status == 0
        each.append(pd.read_csv(out)["p:digit 8"])
    wanted = (each[0] + each[1]) / 2
    assert pd.read_csv(tmp_path / "mean.csv")["p:digit 8"].to_numpy() == pytest.approx(wanted.to_numpy(), abs=1e-6)


def test_an_unknown_member_is_told_with_the_rows(frostbench, ran):
    result = frostbench("bench", "run", ran, "--set", "ensembles={mean: [weighted, solvd]}")
    assert result.status == 2
    assert (
        "must be rows of this bench, which are ['plain', 'weighted', 'solved'], but 'mean' has ['solvd']" in result.err
    )
