"""Runs that train on views, and runs whose predictions are averaged over them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from seeing import Halves, write_images

from frostbench.benchmarks.inference.test_time_views import prepare_views, vectors_of
from frostbench.benchmarks.runs.evaluate import table_to_data
from frostbench.benchmarks.runs.events import RowStarted
from frostbench.benchmarks.runs.keys import key_of
from frostbench.benchmarks.runs.refit import refitted_on
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_record, run_folder
from frostbench.benchmarks.runs.streaming import memory_of
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.runs.view_sets import rows_of_pass, with_averaged, with_views
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import read_table
from frostbench.embedcache.views.catalogue import read_policy
from frostbench.embedcache.views.embedding import make_views
from frostbench.embedcache.views.sets import count_views, read_views
from frostbench.heads.bundle.export import load, load_head, save
from frostbench.heads.trained import view_column
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

SHORT = {"train.schedule.epochs": 3, "train.schedule.min_steps": 0, "train.schedule.batch_size": 8}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A cache of 60 images with four view sets."""
    root = tmp_path_factory.mktemp("seen")
    write_images(root / "images", {"ash": 26, "beech": 20, "cedar": 14})
    list(extract(list_folder(root / "images"), Halves(), root / "cache"))
    table = read_table(root / "cache")
    split = load_or_make_split(root / "cache", table, SplitSpec())
    sets = {"flip": ("flip", 1, "train"), "cut": ("cutmix", 2, "train"), "mirror": ("flip", 1, "eval")}
    for name, (kind, count, role) in (sets | {"corners": ("crops", 4, "eval")}).items():
        list(make_views(root / "cache", name, Halves(), read_policy(kind, {}), split, count=count, role=role))
    return root


@pytest.fixture(scope="module")
def bench(place):
    toggles = {
        "flipped": {"view_sets": ["flip"]},
        "mixed": {"view_sets": ["flip", "cut"]},
        "averaged": {"tta": ["mirror", "corners"], "posthoc.calibration.kind": "temperature"},
        "together": {"view_sets": ["flip"], "train.views": "together", "train.loss.consistency.weight": 1.0},
    }
    spec = {"preset": "plain", "base": SHORT, "toggles": toggles, "seeds": (0,)}
    bench = BenchSpec(caches=(str(place / "cache"),), store=str(place / "store"), **spec)
    list(run_bench(bench))
    return bench


def opened(place):
    table = read_table(place / "cache")
    return table, load_or_make_split(place / "cache", table, SplitSpec())


def head_of(bench, row):
    (part,) = chosen_rows(bench)
    return load_head(run_folder(Path(bench.store), part.rows[row][0]) / "head")


def test_training_on_views_is_training_on_their_rows(place):
    table, split = opened(place)
    run = RunSpec.model_validate({"head": {}, "train": {"schedule": {"epochs": 2, "min_steps": 0, "batch_size": 16}}})
    data = table_to_data(table, split)
    views = read_views(place / "cache", "flip", table)
    named = with_views(data, table, split, [run.model_copy(update={"view_sets": ("flip",)})])
    part = data.train
    rows = (np.cumsum(split.roles == "train") - 1)[views.rows]
    x = torch.cat([part.columns["cls"], torch.tensor(views.table.columns["cls"].astype(np.float32))])
    images = torch.cat([torch.arange(len(part)), torch.from_numpy(rows)])
    by_hand = replace(data, train=replace(part, columns={"cls": x}, labels=part.labels[images], images=images))
    found = [e for e in fit([run.model_copy(update={"view_sets": ("flip",)})], named) if isinstance(e, Finished)]
    wanted = [e for e in fit([run], by_hand) if isinstance(e, Finished)]
    for name, value in wanted[0].head.head.state_dict().items():
        assert torch.equal(found[0].head.head.state_dict()[name], value), name
    assert found[0].head.counts.tolist() == torch.bincount(part.labels, minlength=3).tolist()


def test_a_shared_label_counts_by_its_share(place):
    """The first objective is the mean over rows of share · CE(own) + (1 - share) · CE(partner)."""
    table, split = opened(place)
    spec = {
        "view_sets": ["cut"],
        "head": {"body": {"kind": "mlp", "hidden": [5], "dropout": 0.0}},
        "train": {
            "schedule": {"epochs": 1, "min_steps": 0, "batch_size": 10_000},
            "optim": {"kind": "adamw", "lr": 1e-9, "weight_decay": 0.0},
        },
    }
    run = RunSpec.model_validate(spec)
    data = with_views(table_to_data(table, split), table, split, [run])
    events = list(fit([run], data))
    (done,) = [event for event in events if isinstance(event, Finished)]
    (epoch,) = [event for event in events if type(event).__name__ == "Epoch"]
    cut = data.views["cut"]
    x = torch.cat([data.train.columns["cls"], cut.columns["cls"]])
    own = torch.cat([data.train.labels, data.train.labels[cut.rows]])
    partner = torch.cat([data.train.labels, cut.partners])
    share = torch.cat([torch.ones(len(data.train)), cut.shares])
    with torch.no_grad():
        log_p = done.head.head(x).log_softmax(1)
    each = share * -log_p.gather(1, own[:, None])[:, 0] + (1 - share) * -log_p.gather(1, partner[:, None])[:, 0]
    assert epoch.loss == pytest.approx(float(each.mean()), abs=1e-5)
    hard = float(-log_p.gather(1, own[:, None]).mean())
    assert abs(hard - float(each.mean())) > 5e-4


def test_memory_and_notes_count_views(place):
    table = read_table(place / "cache", stored=True)
    split = load_or_make_split(place / "cache", table, SplitSpec())
    plain, mixed, averaged = RunSpec(), RunSpec(view_sets=("flip", "cut")), RunSpec(tta=("corners",))
    train, dim = split.report.counts["train"], table.stored["cls"].width
    flip, cut, corners = train, 2 * train, 4 * int(np.isin(split.roles, ("select", "calibrate", "test")).sum())
    assert [count_views(place / "cache", name) for name in ("flip", "cut", "corners")] == [flip, cut, corners]
    without = memory_of(table, split, [plain])
    need = memory_of(table, split, [plain, mixed])
    assert need.table - without.table == 2 * (flip + cut) * dim
    assert need.training - without.training == (4 + 3 * 4) * (flip + cut) * dim
    need = memory_of(table, split, [averaged])
    assert (need.table - without.table, need.training - without.training) == (2 * corners * dim, 4 * corners * dim)
    assert rows_of_pass(table, mixed, train) == 4 * train
    whole = RunSpec.model_validate({"view_sets": ["flip"], "train": {"views": "averaged"}})
    assert rows_of_pass(table, whole, train) == train


def test_notes_of_a_bench_know_the_views(place):
    base = SHORT | {"train.schedule.min_steps": 60}
    bench = BenchSpec(
        caches=(str(place / "cache"),),
        store=str(place / "noted"),
        preset="plain",
        base=base,
        seeds=(0,),
        toggles={"mixed": {"view_sets": ["flip", "cut"]}},
    )
    notes = {event.row: event.warnings for event in run_bench(bench) if isinstance(event, RowStarted)}
    rows = opened(place)[1].report.counts["train"]
    for row, count in (("plain", rows), ("mixed", 4 * rows)):
        assert f"and {count} rows give {-(-count // 8)} steps per epoch" in notes[row][0]


def test_keys_follow_the_views(place, bench):
    table, split = opened(place)
    plain = RunSpec()
    keys = {key_of(table, split, plain.model_copy(update={"view_sets": names})) for names in ((), ("flip",), ("cut",))}
    assert len(keys) == 3
    with pytest.raises(CacheError, match="must have a finished view set 'zoom'"):
        key_of(table, split, plain.model_copy(update={"view_sets": ("zoom",)}))


def test_every_row_was_trained_and_knows_its_views(place, bench):
    (part,) = chosen_rows(bench)
    assert set(part.rows) == {"plain", "flipped", "mixed", "averaged", "together"}
    assert set(head_of(bench, "averaged").views) == {"mirror#0", *(f"corners#{i}" for i in range(4))}
    assert head_of(bench, "plain").views == {}


def test_logits_are_averaged_over_the_image_and_its_views(place, bench):
    table, split = opened(place)
    head = head_of(bench, "averaged")
    run = RunSpec.model_validate(read_record(Path(bench.store), chosen_rows(bench)[0].rows["averaged"][0]).full_spec)
    seen = with_averaged(table, split, [run])
    test = split.roles == "test"
    names = ["cls", *(view_column("cls", view) for view in head.views)]
    vectors = {n: torch.from_numpy((table.columns | seen.also)[n][test]).float() for n in names}
    alone = head.without_views()
    wanted = torch.stack([alone.logits({"cls": x}) for x in vectors.values()]).mean(0)
    torch.testing.assert_close(head.logits(vectors), wanted)
    # The record's probabilities are averaged over views, and so are those for calibration.
    outcomes = pd.read_parquet(
        run_folder(Path(bench.store), chosen_rows(bench)[0].rows["averaged"][0]) / "outcomes.parquet"
    )
    judged = outcomes[outcomes["role"] == "test"]
    log_p = head.log_probabilities(vectors)
    labels = torch.from_numpy(table.labels[test])
    np.testing.assert_allclose(judged["log_p"], log_p.double().gather(1, labels[:, None])[:, 0], atol=1e-5)
    with pytest.raises(
        ValueError, match=r"averages its logits over views, but \['cls'\] of view '[a-z]+#0' are missing"
    ):
        head.logits({"cls": vectors["cls"]})


def test_a_bundle_keeps_its_views(bench, tmp_path):
    head = head_of(bench, "averaged")
    save(head, tmp_path / "bundle")
    again = load(tmp_path / "bundle").head
    assert again.views == head.views
    assert again.views["corners#2"] == {
        "policy": {"kind": "crops", "fraction": 0.85, "mirrored": False},
        "seed": 0,
        "number": 2,
    }


def test_a_refit_trains_on_the_same_views(place, bench):
    (part,) = chosen_rows(bench)
    record = read_record(Path(bench.store), part.rows["mixed"][0])
    (head,) = refitted_on(bench, bench.caches[0], [record])
    _, split = opened(place)
    assert int(head.counts.sum()) == int(np.isin(split.roles, ("train", "select")).sum())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"view_sets": ["mirror"]}, "needs a set with role train, but 'mirror' has role eval"),
        ({"tta": ["flip"]}, "needs a set with role eval, but 'flip' has role train"),
        (
            {"view_sets": ["cut"], "train.mixup.alpha": 0.2},
            "train.mixup would mix these rows again",
        ),
        ({"view_sets": ["cut"], "head.classifier.kind": "logreg"}, "kind=logreg takes one label per row"),
        ({"view_sets": ["cut"], "train.loss.crl.weight": 1}, "labels per row, but crl counts"),
        ({"view_sets": ["cut"], "train.views": "averaged"}, "has one label per image"),
        ({"view_sets": ["flip"], "split.folds": 3}, "split"),
        ({"view_sets": ["zoom"]}, "must have a finished view set 'zoom'"),
    ],
)
def test_views_that_do_not_fit_are_refused(place, changes, told):
    split = {"folds": changes.pop("split.folds")} if "split.folds" in changes else {}
    spec = {"preset": "plain", "base": SHORT, "toggles": {"row": changes}, "seeds": (0,), "split": split}
    bench = BenchSpec(caches=(str(place / "cache"),), store=str(place / "other"), **spec)
    with pytest.raises((ValueError, CacheError), match=told):
        list(run_bench(bench))


def test_views_for_another_split_are_refused(place):
    spec = {"preset": "plain", "base": SHORT, "toggles": {"row": {"view_sets": ["flip"]}}, "seeds": (0,)}
    other = BenchSpec(caches=(str(place / "cache"),), store=str(place / "other"), split={"seed": 7}, **spec)
    with pytest.raises(CacheError, match="was made for split"):
        list(run_bench(other))


def test_images_are_predicted_with_their_views(place, bench):
    from frostbench.embedcache.decode import decode_file
    from frostbench.embedcache.extraction.backbone_group import backbone_group

    head = head_of(bench, "averaged")
    table, split = opened(place)
    row = int(np.flatnonzero(split.roles == "test")[0])
    pixels = decode_file(place / "images" / str(table.ids[row]))
    seen = prepare_views(backbone_group(Halves()), head.views, "any name", pixels)
    found = vectors_of(backbone_group(Halves()), head.views, [seen])
    assert set(found) == set(head.reads)
    kept = with_averaged(table, split, [RunSpec.model_validate({"tta": ["mirror", "corners"]})])
    for name, vector in found.items():
        wanted = (kept.also | table.columns)[name][row].astype(np.float32)
        np.testing.assert_allclose(vector[0], wanted, atol=1e-2)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"second.kind": "refit"}, "second.kind=refit takes one label per row"),
        ({"train.oversample.kind": "gaussian"}, "train.oversample.kind=gaussian takes one label"),
        ({"train.loss.vace.strength": 0.5}, "train.loss.vace takes one label"),
        ({"view_sets": ["cut", "cut"]}, "Each view set must be named once"),
    ],
)
def test_what_reads_one_label_refuses_shared_ones(place, changes, told):
    spec = {"preset": "plain", "base": SHORT, "toggles": {"row": {"view_sets": ["cut"]} | changes}, "seeds": (0,)}
    bench = BenchSpec(caches=(str(place / "cache"),), store=str(place / "other"), **spec)
    with pytest.raises(ValueError, match=told):
        list(run_bench(bench))


def test_a_refit_of_views_that_come_together_is_refused(place, bench):
    (part,) = chosen_rows(bench)
    record = read_record(Path(bench.store), part.rows["together"][0])
    with pytest.raises(ValueError, match=r"validation rows, which have no views, but .* \(train\.views\) is together"):
        refitted_on(bench, bench.caches[0], [record])


def test_a_refit_of_views_that_were_made_again_is_refused(place, bench):
    (part,) = chosen_rows(bench)
    record = read_record(Path(bench.store), part.rows["mixed"][0])
    with pytest.raises(ValueError, match="were made again after run"):
        refitted_on(bench, bench.caches[0], [replace(record, key="0" * 16)])


def test_a_refit_keeps_to_the_schedule_of_the_run(place, bench, monkeypatch):
    """With min_steps, the number of epochs depends on the number of views."""
    from frostbench.benchmarks.runs import refit

    changes = {"train.schedule.epochs": 9, "train.schedule.min_steps": 40, "view_sets": ["flip", "cut"]}
    spec = {"preset": "plain", "base": SHORT | changes, "seeds": (0,)}
    own = BenchSpec(caches=(str(place / "cache"),), store=str(place / "paced"), **spec)
    list(run_bench(own))
    (part,) = chosen_rows(own)
    record = read_record(Path(own.store), part.rows["plain"][0])
    asked = []
    real = refit.repeated
    monkeypatch.setattr(refit, "repeated", lambda run, chosen, rows: asked.append(rows) or real(run, chosen, rows))
    refitted_on(own, own.caches[0], [record])
    _, split = opened(place)
    assert asked == [4 * int((split.roles == "train").sum())]


def test_members_that_see_other_views_by_a_name_make_no_ensemble(bench):
    from frostbench.heads.ensemble import Ensemble

    head = head_of(bench, "averaged")
    other = {name: dict(how) | {"seed": 7} for name, how in head.views.items()}
    with pytest.raises(ValueError, match="must agree on views with the same name"):
        Ensemble((head, replace(head, views=other)))


def test_a_checkpoint_belongs_to_the_views(place, monkeypatch):
    """Two view sets with the same name use different checkpoint folders."""
    from frostbench.benchmarks.runs import train_missing

    folders = []

    def kept(folder):
        folders.append(folder)

    monkeypatch.setattr(train_missing, "Checkpoints", kept)
    spec = {"preset": "plain", "base": SHORT, "toggles": {"row": {"view_sets": ["flip"]}}, "seeds": (0,)}
    for number, name in enumerate(("a", "b")):
        bench = BenchSpec(caches=(str(place / "cache"),), store=str(place / f"kept {name}"), **spec)
        monkeypatch.setattr("frostbench.benchmarks.runs.view_sets.fingerprint", lambda *_, n=number: f"{n}" * 64)
        list(run_bench(bench))
    assert folders[0].name != folders[-1].name
