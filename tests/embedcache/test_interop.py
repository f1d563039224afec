import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frostbench.embedcache.exchange.interop import export_cache
from frostbench.embedcache.storage.store import CacheError
from frostbench.embedcache.table import read_table

GROUPS = ["g", None, "g", None, None, None, "h"]
FORMAT_DOC = Path(__file__).parents[2] / "docs" / "cache_format.md"


def test_list_is_read_by_pandas(make_cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frostbench.embedcache.exchange.interop.LIST_ROWS", 2)
    path = make_cache(bad=(1,), groups=GROUPS)
    assert export_cache(path, tmp_path / "out" / "x.parquet") == [tmp_path / "out" / "x.parquet"]
    frame = pd.read_parquet(tmp_path / "out" / "x.parquet")
    assert list(frame) == ["id", "label", "group", "cls", "patch_mean"]
    assert frame["label"].tolist() == ["ant", "ant", "cow", "bee", "ant", "cow"]
    assert frame["group"].fillna("-").tolist() == ["g", "g", "-", "-", "-", "h"]
    x = np.stack(frame["cls"].tolist())
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x, read_table(path).columns["cls"].astype(np.float32))
    assert pq.read_schema(tmp_path / "out" / "x.parquet").field("cls").type == pa.list_(pa.float32())


def test_npy_has_a_matrix_for_each_column_and_aligned_rows(make_cache, tmp_path: Path) -> None:
    path = make_cache(bad=(0,))
    written = export_cache(path, tmp_path / "out", to="npy")
    assert sorted(p.name for p in written) == ["cls.npy", "patch_mean.npy", "rows.csv"]
    table, rows = read_table(path), pd.read_csv(tmp_path / "out" / "rows.csv")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "cls.npy"), table.columns["cls"])
    assert rows["id"].tolist() == table.ids.tolist()
    assert rows["label"].tolist() == ["bee", "ant", "cow", "bee", "ant", "cow"]
    assert rows["group"].isna().all()


@pytest.mark.parametrize("to", ["list", "npy"])
def test_nothing_is_overwritten_unless_allowed(make_cache, tmp_path: Path, to) -> None:
    path = make_cache()
    export_cache(path, tmp_path / "x", to=to)
    with pytest.raises(CacheError, match=r"does not replace files, but \['.*x.*'\] exist"):
        export_cache(path, tmp_path / "x", to=to)
    assert export_cache(path, tmp_path / "x", to=to, overwrite=True)


def test_an_empty_table_exports(make_cache, tmp_path: Path) -> None:
    export_cache(make_cache(bad=range(7)), tmp_path / "x.parquet")
    assert len(pd.read_parquet(tmp_path / "x.parquet")) == 0


def test_a_column_that_is_no_file_name_is_refused(make_cache, tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"\['a/b'\] are not valid file names"):
        export_cache(make_cache(dims={"a/b": 2}), tmp_path / "x", to="npy")


def test_the_snippet_of_the_format_page_reads_a_cache(make_cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_cache(bad=(2,))
    monkeypatch.chdir(path.parent)
    [snippet] = re.findall(r"```python\n(.*?)```", FORMAT_DOC.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(snippet.replace("CACHE", path.name), names)
    table = read_table(path)
    assert names["ids"] == table.ids.tolist()
    np.testing.assert_array_equal(names["x"], table.columns["cls"])
    assert names["labels"] == ["ant", "bee", "cow", "bee", "ant", "cow"]
