"""The server's replies to the form's script, without a browser."""

import json
import re
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest
from pages import Page
from seeing import Halves, write_images

from frostbench.app.jobs import Job
from frostbench.app.page import form_html as form_page
from frostbench.app.page.form import SPLIT_ROWS, first_form, read_form
from frostbench.app.page.form_update import update_form
from frostbench.app.page.job_text import fingerprint_of
from frostbench.app.page.training import submit
from frostbench.app.rows import Row
from frostbench.app.sides import CUSTOM, ROWS
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import preset_names
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.table import read_table
from frostbench.embedcache.views.catalogue import read_policy
from frostbench.embedcache.views.embedding import make_views


@pytest.fixture(scope="module")
def here(cache):
    return Workspace(Path("/nowhere"), (cache,), Path("/nowhere/results"))


@pytest.fixture
def form(here):
    return json.loads(json.dumps(first_form(here).as_tree()))


def test_a_first_visit_has_the_baseline_against_full_on_the_first_cache(here, cache):
    reply = update_form({"act": "restore", "form": None}, here)
    assert reply["error"] is None
    assert reply["presets"] == {"A": "baseline", "B": "full"}
    assert {side: values["cache"] for side, values in reply["form"]["sides"].items()} == dict.fromkeys("AB", str(cache))
    classes = ["digit 0", "digit 1", "digit 8"]
    assert reply["names"]["A"] == {"columns": ["avg"], "background": classes, "view_sets": [], "tta": []}
    assert reply["about"]["A"].startswith("92 images, 3 classes of 12 to 40 images each.")
    assert json.loads(json.dumps(reply)) == reply


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ({"a": 24, "b": 24, "c": 0}, "48 images, 3 classes of 24 images each. x: 2 numbers"),
        ({"a": 1200, "b": 3}, "1,203 images, 2 classes of 3 to 1,200 images each. x: 2 numbers"),
        ({"a": 1}, "1 image, 1 class of 1 image each. x: 2 numbers"),
        ({"a": 0}, "0 images, 1 class of no images. x: 2 numbers"),
    ],
)
def test_a_cache_is_described_with_its_class_sizes(monkeypatch, here, form, classes, expected):
    found = here.facts(form["sides"]["A"]["cache"])
    changed = replace(found, images=sum(classes.values()), classes=classes, columns={"x": "2 numbers"})
    monkeypatch.setattr(Workspace, "facts", lambda *_: changed)
    assert update_form({"act": "restore", "form": form}, here)["about"]["A"] == expected


def test_view_sets_are_offered_to_the_rows_that_take_them(tmp_path):
    write_images(tmp_path / "images", {"ash": 12, "beech": 12})
    cache = tmp_path / "cache"
    list(extract(list_folder(tmp_path / "images"), Halves(), cache))
    split = load_or_make_split(cache, read_table(cache), SplitSpec())
    for name, role in (("mirrored", "train"), ("also", "eval"), ("again", "train")):
        list(make_views(cache, name, Halves(), read_policy("flip", {}), split, count=1, role=role))
    reply = update_form(
        {"act": "restore", "form": None}, Workspace(Path("/nowhere"), (cache,), Path("/nowhere/results"))
    )
    assert (reply["names"]["B"]["view_sets"], reply["names"]["B"]["tta"]) == (["again", "mirrored"], ["also"])
    (cache / "views" / "again" / "cache.json").write_text("{")
    reply = update_form(
        {"act": "restore", "form": None}, Workspace(Path("/nowhere"), (cache,), Path("/nowhere/results"))
    )
    assert (reply["error"], reply["names"]["B"]["view_sets"]) == (None, ["mirrored"])


def test_a_kept_form_is_restored_as_far_as_its_options_exist(here, form, cache):
    form["sides"]["A"] |= {"train.schedule.epochs": 7, "cache": "gone", "an option of another version": 1}
    del form["sides"]["B"]["train.optim.kind"]
    form["split"] = {"seed": 5}
    reply = update_form({"act": "restore", "form": form}, here)["form"]
    assert (reply["sides"]["A"]["train.schedule.epochs"], reply["sides"]["A"]["cache"]) == (7, str(cache))
    assert reply["sides"]["B"]["train.optim.kind"] == "adamw"
    assert (reply["split"]["seed"], reply["split"]["test"]) == (5, 0.2)
    for broken in ("text", {"sides": None}, {"sides": {"A": 3}}, []):
        assert update_form({"act": "restore", "form": broken}, here)["presets"] == {"A": "baseline", "B": "full"}


def test_acts_change_the_named_side(here, form):
    reply = update_form({"act": "preset", "side": "A", "name": "plain", "form": form}, here)
    assert reply["presets"] == {"A": "plain", "B": "full"}
    reply = update_form({"act": "switch", "side": "A", "name": "cRT", "on": True, "form": reply["form"]}, here)
    assert reply["switches"]["A"]["cRT"]
    assert reply["presets"]["A"] == CUSTOM
    reply = update_form({"act": "copy", "form": reply["form"]}, here)
    assert reply["differs"] == []
    assert reply["switches"]["B"]["cRT"]


def test_errors_are_reported(here, form):
    form["sides"]["B"]["train.schedule.epochs"] = 0
    reply = update_form({"act": "input", "form": form}, here)
    assert reply["error"] is None
    assert "train.schedule.epochs" in reply["difference"]
    assert 'data-state="error"' in reply["difference"]
    reply = update_form({"act": "switch", "side": "B", "name": "SupCon", "on": True, "form": form}, here)
    assert "train.schedule.epochs" in reply["error"]
    del form["sides"]["A"]["columns"]
    assert "Reload the page" in update_form({"act": "input", "form": form}, here)["error"]
    form["seeds"] = None


def test_a_job_with_unreadable_settings_is_not_what_an_untrainable_form_trains(here, form):
    form["sides"]["B"]["train.schedule.epochs"] = 0
    found = json.loads(json.dumps(update_form({"act": "input", "form": form}, here)["fingerprints"]))
    assert (len(found["A"]), found["B"]) == (16, None)
    assert fingerprint_of(Job(id="", side="B", bench={"preset": 3})) not in found.values()


FILES = {
    "head.classifier<cosine>.file": {"head.classifier.kind": "cosine"},
    "head.classifier<external>.file": {"head.classifier.kind": "external"},
    "head.classifier<zero_shot>.file": {"head.classifier.kind": "zero_shot"},
    "train.loss.point<external>.file": {"train.loss.point.kind": "external"},
    "second<refit>.classifier<zero_shot>.file": {
        "second.kind": "refit",
        "second<refit>.classifier.kind": "zero_shot",
    },
}


def test_every_line_option_is_declared_as_file_or_not():
    lines = [row for row in (*ROWS, *SPLIT_ROWS) if row.control == "line"]
    assert {row.key for row in lines if row.is_file} == {*FILES, "roles_from"}
    assert {row.path.rpartition(".")[2] for row in lines if not row.is_file} == {"name", "sha256"}


@pytest.fixture
def reads(monkeypatch):
    """Record every file that is hashed."""
    found = []

    def hashed(path):
        found.append(str(path))
        return "0" * 64

    monkeypatch.setattr("frostbench.heads.file_hash.file_sha256", hashed)
    return found


@pytest.mark.parametrize("key", FILES)
@pytest.mark.parametrize("act", ["input", "switch", "restore"])
def test_a_file_outside_the_root_is_never_read(here, form, tmp_path, reads, key, act):
    (tmp_path / "secret").write_text("secret")
    form["sides"]["B"] |= FILES[key] | {key: str(tmp_path / "secret")}
    reply = update_form({"act": act, "form": form, "side": "B", "name": "SupCon", "on": True}, here)
    message = reply["error"] if act == "switch" else reply["difference"]
    assert "The page only reads files below /nowhere, and " in message
    assert key.replace("<", "&lt;").partition("&lt;")[0].split(".")[0] in message
    assert reads == []
    with pytest.raises(gr.Error, match="The page only reads files below"):
        submit(read_form(form), ("B",), here)


def test_a_file_of_roles_outside_the_root_is_refused(here, form, tmp_path):
    (tmp_path / "roles.csv").write_text("id,role\nsecret,secret\n")
    form["split"]["roles_from"] = str(tmp_path / "roles.csv")
    reply = update_form({"act": "input", "form": form}, here)["difference"]
    assert reply.count("split: Role file (roles_from): The page only reads files below /nowhere") == 2


def test_files_are_read_once_and_only_for_active_options(form, cache, tmp_path, reads):
    here = Workspace(tmp_path, (cache,), tmp_path / "results")
    (tmp_path / "words.npz").write_bytes(b"weights")
    form["sides"]["B"] |= {key: str(tmp_path / "words.npz") for key in FILES}
    assert update_form({"act": "input", "form": form}, here)["error"] is None
    assert reads == []
    form["sides"]["B"]["head.classifier.kind"] = "zero_shot"
    for act in ("input", "restore", "input"):
        assert update_form({"act": act, "form": form}, here)["error"] is None
    assert reads == [str(tmp_path / "words.npz")]
    (tmp_path / "words.npz").write_bytes(b"others")
    update_form({"act": "input", "form": form}, here)
    assert len(reads) == 2


def groups_of(page):
    return {attrs["id"]: "open" in attrs for tag, attrs in page.tags if tag == "details"}


def test_an_experimental_option_stands_in_a_closed_group(monkeypatch):
    odd = Row("train.loss.odd", "train.loss.odd", "Odd", "Something new.", "flag", default=False, tier="experimental")
    monkeypatch.setattr(form_page, "ROWS", (*form_page.ROWS, odd))
    page = Page(form_page.form_html())
    assert page.wrong == []
    assert not groups_of(page)["group-Loss-experimental"]
    assert len(page.having("data-key", "train.loss.odd")) == 2


def test_groups_are_by_subject_and_long_ones_closed():
    groups = groups_of(Page(form_page.form_html()))
    subjects = (
        "Data",
        "Methods",
        "Head",
        "Loss",
        "Class-balance",
        "Training",
        "Second-stage",
        "After-training",
        "shared",
    )
    assert groups == {f"group-{subject}": True for subject in subjects} | dict.fromkeys(
        (
            *("group-Confidence", "group-Confidence-experimental", "group-Contrast", "group-Contrast-experimental"),
            "group-Sampling-and-augmentation",
        ),
        False,
    )


def test_experimental_rows_of_a_kind_stay_beside_the_choice_of_that_kind():
    text = form_page.form_html()
    experimental = text.index('id="group-Contrast-experimental"')
    after = text.index('id="group-', experimental + 5)
    for key in ("train-loss-bcl-weight", "train-loss-bcl-projector-mlp-hidden", "train-loss-center-rate"):
        assert experimental < text.index(f'id="row-{key}"') < after
    assert text.index('id="group-Sampling-and-augmentation"') < text.index('id="row-train-sampler-pxk-rows"')


def test_experimental_kinds_are_offered_under_a_heading():
    text = form_page.form_html()
    select = text[text.index('id="A-second-kind"') :]
    assert select[: select.index("</select>")].endswith(
        "><option>none</option><option>crt</option>"
        '<optgroup label="Experimental"><option>lws</option><option>tau_norm</option><option>refit</option></optgroup>'
    )


def test_presets_come_with_the_plain_head_first():
    select = re.search(r'<select id="preset-A".*?</select>', form_page.form_html())[0]
    names = re.findall(r'<option value="([^"]*)"', select)
    assert names[:4] == ["plain", "baseline", "full", "arcface"]
    assert names[-1] == CUSTOM
    assert set(names) == {*preset_names(), CUSTOM}


def test_the_logit_adjustment_switch_replaces_weights_and_smoothing(here, form):
    """Combined with the baseline's class weights, the adjustment would have almost no effect."""
    turn = {"act": "switch", "side": "A", "name": "Long-tail logit adjustment"}
    on = update_form(turn | {"form": form, "on": True}, here)["form"]
    changed = {key: value for key, value in on["sides"]["A"].items() if form["sides"]["A"][key] != value}
    assert changed == {
        "train.loss.logit_adjustment.tau": 1.0,
        "train.loss.class_weight.kind": "none",
        "train.loss.smoothing.epsilon": 0.0,
    }
    reply = update_form({"act": "input", "form": on}, here)
    assert reply["switches"]["A"]["Long-tail logit adjustment"]
    assert "moves no logit" not in reply["difference"]
    off = update_form(turn | {"form": on, "on": False}, here)["form"]
    assert off["sides"] == form["sides"]


def test_a_switch_restores_what_it_changed_except_later_edits(here, form):
    turn = {"act": "switch", "side": "A", "name": "SupCon"}
    on = update_form(turn | {"form": form, "on": True}, here)["form"]
    assert on["sides"]["A"]["head.body.kind"] == "mlp"
    off = update_form(turn | {"form": on, "on": False}, here)["form"]
    assert off["sides"] == form["sides"]
    on["sides"]["A"]["train.loss.supcon.temperature"] = 0.2
    on["sides"]["A"]["train.optim<adamw>.lr"] = 0.01
    mixed = update_form(turn | {"form": on, "on": False}, here)["form"]["sides"]["A"]
    assert (mixed["head.body.kind"], mixed["train.optim<adamw>.lr"]) == ("identity", 0.01)
    preset = update_form({"act": "preset", "side": "A", "name": "mlp", "form": on}, here)["form"]
    assert preset["switched"]["A"] == {}


def test_corrections_that_cancel_each_other_are_reported(here, form):
    form["sides"]["B"] |= {"train.loss.logit_adjustment.tau": 1.0, "train.loss.class_weight.kind": "none"}
    assert "moves no logit" not in update_form({"act": "input", "form": form}, here)["difference"]
    form["sides"]["A"]["train.loss.logit_adjustment.tau"] = 1.0
    reply = update_form({"act": "input", "form": form}, here)
    assert "train.loss.logit_adjustment moves no logit relative to another by more than 0.00" in reply["difference"]


@pytest.mark.parametrize("part", ["sides", "split", "switched", "seeds"])
@pytest.mark.parametrize("act", ["input", "copy", "restore", "switch"])
def test_a_deeply_nested_form_is_refused(here, form, act, part):
    deep = 1
    for _ in range(3000):
        deep = [deep]
    if part == "seeds":
        form["seeds"] = deep
    else:
        key = "switched" if part == "switched" else next(iter(form[part]))
        form[part] = form[part] | {key: deep}
    request = {"act": act, "form": form, "side": "B", "name": "SupCon", "on": True}
    assert update_form(request, here)["error"].startswith("The page sent values nested more than 100 levels deep.")


def test_a_deep_text_of_a_side_is_an_error_of_that_side(here, form):
    form["sides"]["B"]["posthoc.deploy_prior"] = "[" * 5000
    reply = update_form({"act": "input", "form": form}, here)
    assert reply["error"] is None
    assert "Class shares in deployment (posthoc.deploy_prior): value must be YAML" in reply["difference"]
