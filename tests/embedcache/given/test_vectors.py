import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from frostbench.embedcache.given.vectors import check_finite, read_vectors

X = np.arange(6, dtype=np.float64).reshape(3, 2)
FRAME = pd.DataFrame(X, columns=["a", "b"])


def read_only():
    x = X.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (X.astype(np.float16), np.float16),
        (X.astype(">f4"), np.float32),
        (X.astype(np.longdouble), np.float64),
        (X.astype(np.int64), np.float64),
        (X.astype(np.uint8), np.float64),
        (np.asfortranarray(X), np.float64),
        (np.repeat(X, 2, axis=1)[:, ::2], np.float64),
        (read_only(), np.float64),
        (X.tolist(), np.float64),
        (FRAME, np.float64),
        (FRAME.astype("Float64"), np.float64),
        (FRAME.astype(object), np.float64),
        (torch.tensor(X, dtype=torch.float32, requires_grad=True), np.float32),
        (torch.tensor(X, dtype=torch.bfloat16), np.float32),
        (torch.tensor(X).to_sparse(), np.float64),
        (np.ma.array(X, mask=False), np.float64),
    ],
)
def test_arrays_of_every_kind_become_native_floats(x, dtype):
    found = read_vectors(x)
    assert found.dtype == dtype
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones(3), r"\[N, D\], got float64 \[3\]. Pass x\[None\] for one vector"),
        (np.ones((3, 2, 2)), "Pool tokens"),
        (np.ones((3, 0)), "at least one column, got float64"),
        (X.astype(np.complex64), "real numbers, got complex64"),
        (FRAME.assign(name=["u", "v", "w"]), "but they contain 'u' of type str. Leave out columns of text"),
        (np.array([["1", "2"]]), "real numbers, got <U1"),
        ([[1.0, 2.0], [1.0]], "differ in length"),
        (scipy.sparse.csr_matrix(X), r"dense matrix, got csr_matrix. Pass x.toarray\(\)"),
        (None, r"a matrix \[N, D\]"),
    ],
)
def test_what_is_no_matrix_is_refused(x, message):
    with pytest.raises(ValueError, match=message):
        read_vectors(x)


def test_tokens_are_read_where_they_are_wanted():
    assert read_vectors(np.ones((3, 2, 2)), tokens=True).shape == (3, 2, 2)


@pytest.mark.parametrize("gap", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_counted_and_the_first_is_named(monkeypatch, gap):
    monkeypatch.setattr("frostbench.embedcache.given.vectors.ROWS_AT_ONCE", 2)
    x = X.copy()
    x[1:, 1] = gap
    with pytest.raises(
        ValueError, match=f"must be finite, but 2 of 3 rows are not; the first is row 1, which holds {gap}"
    ):
        check_finite(x)
    x[2, 1] = 0
    with pytest.raises(ValueError, match="but 1 of 3 rows is not; the first is row 1"):
        check_finite(x)
    for missing in (FRAME.where(FRAME < 3), np.ma.array(X, mask=X > 2), FRAME.astype("Float64").where(FRAME < 3)):
        with pytest.raises(ValueError, match=r"2 of 3 rows .* row 1, which holds nan"):
            check_finite(read_vectors(missing))
