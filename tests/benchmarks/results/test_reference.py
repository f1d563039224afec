"""Facts derived from the published tables of FeDLaS: ranks, sums, and which statements about them hold."""

import numpy as np
import pytest

from frostbench.benchmarks.reference.fedlas import cells, column_means, mean_ranks, tables

FOUND = tables()
ONE, TWO = FOUND["table1"], FOUND["table2"]


def test_the_tables_are_whole():
    assert [len(ONE["rows"]), len(TWO["rows"])] == [16, 9]
    assert cells(ONE, "ECE").shape == (16, 6)
    assert cells(TWO, "Acc").shape == (9, 4)
    assert all(len(row) == 9 for name, row in FOUND["table3_auroc"].items() if name != "columns")


def test_mean_ranks_of_table_1():
    wanted = {"CE": 14, "ECP": 11.5, "CRL": 8.5, "DFL": 7.5, "LS": 7, "FeDLaS-LS": 5.5, "ACLS": 5.5, "CE+TS": 5}
    found = mean_ranks(ONE, "ECE")
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert found["FeDLaS-MbLS"] == pytest.approx(11 / 6)
    assert min(found, key=found.get) == "FeDLaS-MbLS"


def test_the_mean_rank_of_ecp_is_not_the_printed_one():
    """Its adaptive ECE is printed with 11.5."""
    assert mean_ranks(ONE, "AECE")["ECP"] == pytest.approx(11.0)


def test_mean_ranks_of_table_2():
    assert mean_ranks(TWO, "Acc") == pytest.approx(
        {"CE": 8, "MMCE": 5.25, "DFL": 8, "AdaFocal": 7.25, "ACLS": 3, "LS": 4.5}
        | {"FeDLaS-LS": 3, "MbLS": 3.75, "FeDLaS-MbLS": 2.25}
    )
    assert mean_ranks(TWO, "ECE")["FeDLaS-LS"] == pytest.approx(1.5)
    assert mean_ranks(TWO, "AECE")["FeDLaS-LS"] == pytest.approx(1.25)


def test_means_of_columns():
    found = column_means(TWO, "Acc")
    assert found["FeDLaS-MbLS"] == pytest.approx(79.19)
    assert found["DFL"] == pytest.approx((86.79 + 64.41 + 71.34 + 74.93) / 4)


def test_over_and_under_confidence_of_table_4_sum_to_the_ece_of_table_1():
    places = {"tiny": 0, "c10": 2, "c100": 4}
    gaps = [
        sum(parts) - ONE["rows"][row][places[data]][0]
        for data, rows in FOUND["table4"]["rows"].items()
        for row, parts in rows.items()
    ]
    assert len(gaps) == 15
    assert np.abs(gaps).max() == pytest.approx(0.02, abs=1e-9)


def test_statements_that_the_tables_do_not_bear_out():
    ece = {name: [cell[0] for cell in row] for name, row in ONE["rows"].items()}
    tiny_r101, c100_r50, c100_r101 = 1, 4, 5
    # Better than its base everywhere:
    assert ece["FeDLaS-LS"][tiny_r101] > ece["LS"][tiny_r101]
    assert ece["FeDLaS-LS"][c100_r101] > ece["LS"][c100_r101]
    # Better than every method that is not trained for it:
    for place in (c100_r50, c100_r101):
        assert min(ece, key=lambda name: ece[name][place]) == "CE+TS"
    # Both directions lowered at once:
    over = {data: {row: parts[0] for row, parts in rows.items()} for data, rows in FOUND["table4"]["rows"].items()}
    assert over["c100"]["FeDLaS-LS"] > over["c100"]["LS"]
    assert over["tiny"]["FeDLaS-LS"] > over["tiny"]["LS"]


def test_statements_that_hold():
    columns = FOUND["table3_auroc"]["columns"]
    for name, row in FOUND["table3_auroc"].items():
        if name == "columns":
            continue
        auroc = dict(zip(columns, row, strict=True))
        assert max(auroc["LS"], auroc["MbLS"]) < auroc["CE"]
        assert auroc["FeDLaS-LS"] > auroc["LS"]
        assert auroc["FeDLaS-MbLS"] >= auroc["MbLS"]
    for rows in FOUND["table4"]["rows"].values():
        assert rows["FeDLaS-LS"][1] < rows["LS"][1]
        assert rows["FeDLaS-MbLS"][1] < rows["MbLS"][1]
