"""A row without a prediction has a reason and no class."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from frostbench.benchmarks.api import fit
from frostbench.benchmarks.inference.classified import TOO_LARGE, classified
from frostbench.benchmarks.inference.predict import predict_table, write_predictions
from frostbench.embedcache.table import read_table
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.posthoc.decisions.rule import DecisionRule
from frostbench.heads.vectors import NOT_FINITE


@pytest.fixture(params=["logreg", "knn", "ensemble"])
def head(request, cache):
    if request.param != "ensemble":
        return fit(cache, None, {"head.classifier.kind": request.param}).head
    return Ensemble(tuple(fit(cache, None, {"head.classifier.kind": kind}).head for kind in ("logreg", "ncm")))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_an_error_row(head, cache, tmp_path, value):
    table = read_table(cache)
    x = table.columns["toy"].copy()
    x[[1, 5], 3] = value
    wanted, found = predict_table(head, table), predict_table(head, replace(table, columns={"toy": x}))
    assert found["error"][[1, 5]].tolist() == [NOT_FINITE] * 2
    assert found["class"][[1, 5]].isna().all()
    assert found.filter(like="p:").loc[[1, 5]].isna().all(axis=None)
    others = [row for row in range(len(found)) if row not in (1, 5)]
    assert found["class"][others].equals(wanted["class"][others])
    assert found["error"][others].isna().all()
    for name in ("new.csv", "new.parquet"):
        write_predictions(found, tmp_path / name)
    for written in (pd.read_csv(tmp_path / "new.csv"), pd.read_parquet(tmp_path / "new.parquet")):
        assert written["class"].isna().sum() == 2
        assert written["error"].notna().sum() == 2


def test_a_vector_so_large_that_its_scores_are_none_is_an_error_row(cache):
    head = fit(cache, None, {"head.classifier.kind": "logreg"}).head
    x = torch.ones(2, 8)
    x[1] = 3e38
    (p, chosen, _), reasons = classified(head, {"toy": x})
    assert (reasons, chosen[1].item()) == ([None, TOO_LARGE], -1)
    assert p[0].isfinite().all()
    assert p[1].isnan().all()


def test_all_rows_may_be_error_rows(head):
    (p, chosen, _), reasons = classified(head, {"toy": torch.full((2, 8), torch.nan)})
    assert (reasons, chosen.tolist()) == ([NOT_FINITE] * 2, [-1, -1])
    assert p.isnan().all()


def test_a_head_that_abstains_says_unsure_and_how_probable_it_was(cache):
    plain = fit(cache, None, {"head.classifier.kind": "logreg"}).head
    table = read_table(cache)
    wanted = predict_table(plain, table)
    threshold = float(wanted["probability"].median())
    head = replace(plain, layers=replace(plain.layers, rule=DecisionRule(abstain_below=threshold)))
    found = predict_table(head, table)
    below = wanted["probability"] < threshold
    assert 0 < below.sum() < len(below)
    assert (found["class"][below] == "unsure").all()
    assert found["class"][~below].equals(wanted["class"][~below])
    assert found["probability"].equals(wanted["probability"])
    assert found["error"].isna().all()
