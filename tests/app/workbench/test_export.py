"""What the tab Export asks for, without a browser; the process that makes files is this one."""

import time
from importlib import import_module
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
import yaml
from starlette.applications import Starlette
from starlette.testclient import TestClient

import frostbench
from frostbench.app.workbench.export.answers import answers
from frostbench.app.workbench.export.commands import commands
from frostbench.app.workbench.predict.process import MODULES, PredictionProcess
from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.keys import key_of, rows_of
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.labels.corrections import Correction, add_corrections
from frostbench.embedcache.splits.finding import settings_of_split, split_with_hash
from frostbench.embedcache.table import read_table

SHORT = {"train.schedule.epochs": 3, "train.schedule.min_steps": 0}


@pytest.fixture(scope="module")
def store(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("export") / "results"
    bench = {"caches": (str(cache),), "store": str(out), "preset": "plain", "base": SHORT, "seeds": (0, 1)}
    toggles = {"smoothed": {"train.loss.smoothing.epsilon": 0.2}}
    list(run_bench(BenchSpec(**bench, toggles=toggles, split={"seed": 7, "test": 0.3})))
    return out


@pytest.fixture
def here(store, cache):
    return Workspace(store.parent, (cache,), store)


@pytest.fixture
def setting(here):
    from frostbench.app.workbench.predict.answers import heads

    (found,) = (one for one in heads(here)["settings"] if "smoothing" in one["name"].lower())
    return found


@pytest.fixture
def ask(here, tmp_path, monkeypatch):
    def call(self, name, *arguments):
        module, function = name.rsplit(".", 1)
        return getattr(import_module(f"{MODULES}.{module}"), function)(*arguments)

    monkeypatch.setattr(PredictionProcess, "call", call)
    functions = answers(here, PredictionProcess(), tmp_path / "files")

    def ask(name, **request):
        deadline = time.monotonic() + 120
        while (found := functions[name](request)).get("state") == "computing":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return found

    return ask


def about(setting, **more):
    keys = [setting["key"], *(key for key in setting["keys"] if key != setting["key"])]
    return {"store": setting["store"], "keys": keys, "here": setting["here"]} | more


def unpacked(found, tmp_path):
    with ZipFile(tmp_path / "files" / Path(found["file"]).name) as packed:
        assert {name.split("/")[0] for name in packed.namelist()} == {"head"}
        packed.extractall(tmp_path / "out")
    return tmp_path / "out" / "head"


def test_the_measured_head_is_the_one_of_the_store(ask, setting, store, tmp_path):
    found = ask("bundle", **about(setting, kind="measured"))
    assert found["name"] == f"measured-{setting['key']}.zip"
    folder = unpacked(found, tmp_path)
    kept = store / "runs" / setting["key"] / "head"
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == {
        one.name: one.read_bytes() for one in kept.iterdir()
    }


def test_a_refitted_head_was_trained_on_validation_images_too(ask, setting, store, tmp_path):
    folder = unpacked(ask("bundle", **about(setting, kind="refitted")), tmp_path)
    rows = read_record(store, setting["key"]).data.rows
    assert int(frostbench.load(folder).counts.sum()) == rows["train"] + rows["select"]


def test_an_ensemble_is_the_mean_of_the_seeds(ask, setting, store, cache, tmp_path):
    head = frostbench.load(unpacked(ask("bundle", **about(setting, kind="ensemble")), tmp_path))
    vectors = {name: torch.tensor(frostbench.Cache(cache).vectors(name)) for name in head.columns}
    members = [frostbench.load(store / "runs" / key / "head") for key in setting["keys"]]
    mean = torch.stack([one.log_probabilities(vectors).double().exp() for one in members]).mean(0)
    assert torch.allclose(head.log_probabilities(vectors).exp(), mean, atol=1e-9)


def test_the_same_file_is_made_once(ask, setting):
    first, second = (ask("bundle", **about(setting, kind="ensemble")) for _ in range(2))
    assert first == second


def test_the_card_states_what_the_records_do(ask, setting, store):
    found = ask("card", **about(setting))
    records = [read_record(store, key) for key in about(setting)["keys"]]
    assert [one["macro_f1"] if "macro_f1" in one else one["macro_f1_fg"] for one in found["metrics"]] == [
        record.evaluations["select"].metrics["macro_f1_fg"] for record in records
    ]
    assert found["rows"] == records[0].data.rows
    assert found["kept"] == [True, True]
    assert "test" not in str(found["metrics"])


def test_its_commands_train_the_same_runs(ask, setting, here, cache):
    text = ask("card", **about(setting))["commands"]
    assert text.partition("END\nfrostbench")[2].startswith(" bench run again.yaml\n")
    bench = parse(BenchSpec, yaml.safe_load(text.split("<<'END'\n")[1].split("END\n")[0]))
    table = read_table(cache)
    record = read_record(here.store, setting["key"])
    split = split_with_hash(cache, table, record.data.split)
    (row,) = rows_of(bench)
    assert {key_of(table, split, spec) for spec in row.specs} == set(setting["keys"])
    assert settings_of_split(cache, record.data.split).seed == 7
    assert f"frostbench export again.yaml {bench.preset} --out head" in text


def test_commands_that_would_train_other_runs_are_not_given(cache, tmp_path):
    table, store = read_table(cache), tmp_path / "results"
    old, new = table.class_names[table.labels[0]], table.class_names[1 - min(1, table.labels[0])]
    add_corrections(tmp_path / "labels.csv", [Correction(str(table.ids[0]), old, new)])
    bench = {"caches": (str(cache),), "store": str(store), "preset": "plain", "base": SHORT, "seeds": (0,)}
    list(run_bench(BenchSpec(**bench, labels={"file": str(tmp_path / "labels.csv")})))
    (folder,) = (store / "runs").iterdir()
    with pytest.raises(ValueError, match="would train other runs: these were trained with other labels"):
        commands(store, [read_record(store, folder.name)], cache)


def test_a_split_that_is_not_kept_is_told(cache):
    with pytest.raises(ValueError, match="has none with the hash 0000"):
        split_with_hash(cache, read_table(cache), "0000")


def test_a_report_compares_two_settings(ask, setting, here, tmp_path):
    from frostbench.app.workbench.predict.answers import heads

    (other,) = (one for one in heads(here)["settings"] if one["id"] != setting["id"])
    names = {"name_a": other["name"], "name_b": setting["name"]}
    found = ask("report", store=setting["store"], a=list(other["keys"]), b=list(setting["keys"]), **names)
    text = (tmp_path / "files" / Path(found["file"]).name).read_text()
    assert text.startswith("<!doctype html>") or "<html" in text[:200]
    assert "Label smoothing" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "other"}, "A bundle must be one of"),
        ({"keys": []}, "A setting needs 1 to 100 run keys"),
        ({"keys": [3]}, "A setting needs 1 to 100 run keys"),
        ({"store": "/etc"}, "The store must be one of"),
        ({"here": "/etc"}, "The cache must be one of"),
        ({"here": "", "kind": "refitted"}, "must be below the folder of the page"),
        ({"keys": ["../../etc"], "kind": "measured"}, "A run key must consist of letters"),
        ({"keys": ["0" * 16], "kind": "measured"}, "run 0000000000000000 keeps none"),
    ],
)
def test_malformed_requests_are_refused(ask, setting, change, message):
    with pytest.raises(ValueError, match=message):
        ask("bundle", **about(setting, kind="ensemble") | change)


def test_only_files_that_were_made_are_sent(here, tmp_path):
    scratch = tmp_path / "scratch"
    (scratch / "files").mkdir(parents=True)
    with ZipFile(scratch / "files" / "5d1f.zip", "w") as packed:
        packed.writestr("head/card.json", "{}")
    (scratch / "secret").write_text("s")
    (scratch / "files" / "link.zip").symlink_to(scratch / "secret")
    client = TestClient(Starlette(routes=routes(here, "token", scratch)))
    sent = client.get("/frostbench/files/5d1f.zip?name=../measured.zip")
    assert 'filename="measured.zip"' in sent.headers["content-disposition"]
    assert ZipFile(BytesIO(sent.content)).namelist() == ["head/card.json"]
    for name in ("none.zip", "link.zip", "..", "%2e%2e%2fsecret", "a%00b"):
        answer = client.get(f"/frostbench/files/{name}")
        assert answer.status_code == 404
        assert answer.text != "s"
