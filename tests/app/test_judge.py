"""What the form's script is told, without a browser."""

import json
import re
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest
from pages import Page
from seeing import Halves, write_images

from frostbench.app.page import form_html as form_page
from frostbench.app.page.judge import judge
from frostbench.app.page.state import SPLIT_ROWS, first_form, read_form
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
    said = judge({"act": "restore", "form": None}, here)
    assert said["error"] is None
    assert said["presets"] == {"A": "baseline", "B": "full"}
    assert {side: values["cache"] for side, values in said["form"]["sides"].items()} == dict.fromkeys("AB", str(cache))
    classes = ["digit 0", "digit 1", "digit 8"]
    assert said["names"]["A"] == {"columns": ["avg"], "background": classes, "view_sets": [], "tta": []}
    assert said["about"]["A"].startswith("92 images, 3 classes of 12 to 40 images each.")
    assert json.loads(json.dumps(said)) == said


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ({"a": 24, "b": 24, "c": 0}, "48 images, 3 classes of 24 images each. x: 2 numbers"),
        ({"a": 1200, "b": 3}, "1,203 images, 2 classes of 3 to 1,200 images each. x: 2 numbers"),
        ({"a": 0}, "0 images, 1 classes of no images. x: 2 numbers"),
    ],
)
def test_a_cache_says_how_many_images_its_classes_have(monkeypatch, here, form, classes, told):
    found = here.facts(form["sides"]["A"]["cache"])
    changed = replace(found, images=sum(classes.values()), classes=classes, columns={"x": "2 numbers"})
    monkeypatch.setattr(Workspace, "facts", lambda *_: changed)
    assert judge({"act": "restore", "form": form}, here)["about"]["A"] == told


def test_view_sets_are_offered_to_the_rows_that_take_them(tmp_path):
    write_images(tmp_path / "images", {"ash": 12, "beech": 12})
    cache = tmp_path / "cache"
    list(extract(list_folder(tmp_path / "images"), Halves(), cache))
    split = load_or_make_split(cache, read_table(cache), SplitSpec())
    for name, role in (("mirrored", "train"), ("also", "eval"), ("again", "train")):
        list(make_views(cache, name, Halves(), read_policy("flip", {}), split, count=1, role=role))
    said = judge({"act": "restore", "form": None}, Workspace(Path("/nowhere"), (cache,), Path("/nowhere/results")))
    assert (said["names"]["B"]["view_sets"], said["names"]["B"]["tta"]) == (["again", "mirrored"], ["also"])
    (cache / "views" / "again" / "cache.json").write_text("{")
    said = judge({"act": "restore", "form": None}, Workspace(Path("/nowhere"), (cache,), Path("/nowhere/results")))
    assert (said["error"], said["names"]["B"]["view_sets"]) == (None, ["mirrored"])


def test_what_a_browser_kept_comes_back_as_far_as_it_still_exists(here, form, cache):
    form["sides"]["A"] |= {"train.schedule.epochs": 7, "cache": "gone", "an option of another version": 1}
    del form["sides"]["B"]["train.optim.kind"]
    form["split"] = {"seed": 5}
    said = judge({"act": "restore", "form": form}, here)["form"]
    assert (said["sides"]["A"]["train.schedule.epochs"], said["sides"]["A"]["cache"]) == (7, str(cache))
    assert said["sides"]["B"]["train.optim.kind"] == "adamw"
    assert (said["split"]["seed"], said["split"]["test"]) == (5, 0.2)
    for broken in ("text", {"sides": None}, {"sides": {"A": 3}}, []):
        assert judge({"act": "restore", "form": broken}, here)["presets"] == {"A": "baseline", "B": "full"}


def test_acts_change_the_side_they_name(here, form):
    said = judge({"act": "preset", "side": "A", "name": "plain", "form": form}, here)
    assert said["presets"] == {"A": "plain", "B": "full"}
    said = judge({"act": "switch", "side": "A", "name": "cRT", "on": True, "form": said["form"]}, here)
    assert said["switches"]["A"]["cRT"]
    assert said["presets"]["A"] == CUSTOM
    said = judge({"act": "copy", "form": said["form"]}, here)
    assert said["differs"] == []
    assert said["switches"]["B"]["cRT"]


def test_what_is_not_possible_is_told(here, form):
    form["sides"]["B"]["train.schedule.epochs"] = 0
    said = judge({"act": "input", "form": form}, here)
    assert said["error"] is None
    assert "train.schedule.epochs" in said["difference"]
    assert 'data-state="error"' in said["difference"]
    said = judge({"act": "switch", "side": "B", "name": "SupCon", "on": True, "form": form}, here)
    assert "train.schedule.epochs" in said["error"]
    del form["sides"]["A"]["columns"]
    assert "Reload the page" in judge({"act": "input", "form": form}, here)["error"]
    form["seeds"] = None


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


def test_every_option_that_is_a_line_is_known_as_a_file_or_as_none():
    lines = [row for row in (*ROWS, *SPLIT_ROWS) if row.control == "line"]
    assert {row.key for row in lines if row.is_file} == {*FILES, "roles_from"}
    assert {row.path.rpartition(".")[2] for row in lines if not row.is_file} == {"name", "sha256"}


@pytest.fixture
def reads(monkeypatch):
    """Every file that is hashed."""
    found = []

    def hashed(path):
        found.append(str(path))
        return "0" * 64

    monkeypatch.setattr("frostbench.heads.file_hash.file_sha256", hashed)
    return found


@pytest.mark.parametrize("key", FILES)
@pytest.mark.parametrize("act", ["input", "switch", "restore"])
def test_a_file_elsewhere_is_never_read(here, form, tmp_path, reads, key, act):
    (tmp_path / "secret").write_text("secret")
    form["sides"]["B"] |= FILES[key] | {key: str(tmp_path / "secret")}
    said = judge({"act": act, "form": form, "side": "B", "name": "SupCon", "on": True}, here)
    told = said["error"] if act == "switch" else said["difference"]
    assert "a file that the page reads lies below /nowhere, however: " in told
    assert key.replace("<", "&lt;").partition("&lt;")[0].split(".")[0] in told
    assert reads == []
    with pytest.raises(gr.Error, match="a file that the page reads lies below"):
        submit(read_form(form), ("B",), here)


def test_a_file_of_roles_elsewhere_is_refused(here, form, tmp_path):
    (tmp_path / "roles.csv").write_text("id,role\nsecret,secret\n")
    form["split"]["roles_from"] = str(tmp_path / "roles.csv")
    said = judge({"act": "input", "form": form}, here)["difference"]
    assert said.count("split: Role file (roles_from): a file that the page reads lies below /nowhere") == 2


def test_a_file_in_use_is_read_once_and_not_for_options_out_of_use(form, cache, tmp_path, reads):
    here = Workspace(tmp_path, (cache,), tmp_path / "results")
    (tmp_path / "words.npz").write_bytes(b"weights")
    form["sides"]["B"] |= {key: str(tmp_path / "words.npz") for key in FILES}
    assert judge({"act": "input", "form": form}, here)["error"] is None
    assert reads == []
    form["sides"]["B"]["head.classifier.kind"] = "zero_shot"
    for act in ("input", "restore", "input"):
        assert judge({"act": act, "form": form}, here)["error"] is None
    assert reads == [str(tmp_path / "words.npz")]
    (tmp_path / "words.npz").write_bytes(b"others")
    judge({"act": "input", "form": form}, here)
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


def test_groups_are_by_subject_and_the_long_ones_closed():
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
            "group-Rows",
        ),
        False,
    )


def test_experimental_rows_of_a_kind_stay_beside_the_choice_of_that_kind():
    text = form_page.form_html()
    experimental = text.index('id="group-Contrast-experimental"')
    after = text.index('id="group-', experimental + 5)
    for key in ("train-loss-bcl-weight", "train-loss-bcl-projector-mlp-hidden", "train-loss-center-rate"):
        assert experimental < text.index(f'id="row-{key}"') < after
    assert text.index('id="group-Rows"') < text.index('id="row-train-sampler-pxk-rows"')


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


def test_the_logit_adjustment_switch_takes_the_place_of_weights_and_smoothing(here, form):
    """Beside the baseline's weights the adjustment would move logits by next to nothing."""
    turn = {"act": "switch", "side": "A", "name": "Long-tail logit adjustment"}
    on = judge(turn | {"form": form, "on": True}, here)["form"]
    changed = {key: value for key, value in on["sides"]["A"].items() if form["sides"]["A"][key] != value}
    assert changed == {
        "train.loss.logit_adjustment.tau": 1.0,
        "train.loss.class_weight.kind": "none",
        "train.loss.smoothing.epsilon": 0.0,
    }
    said = judge({"act": "input", "form": on}, here)
    assert said["switches"]["A"]["Long-tail logit adjustment"]
    assert "moves no logit" not in said["difference"]
    off = judge(turn | {"form": on, "on": False}, here)["form"]
    assert off["sides"] == form["sides"]


def test_a_switch_gives_back_what_it_changed_but_nothing_that_was_set_since(here, form):
    turn = {"act": "switch", "side": "A", "name": "SupCon"}
    on = judge(turn | {"form": form, "on": True}, here)["form"]
    assert on["sides"]["A"]["head.body.kind"] == "mlp"
    off = judge(turn | {"form": on, "on": False}, here)["form"]
    assert off["sides"] == form["sides"]
    on["sides"]["A"]["train.loss.supcon.temperature"] = 0.2
    on["sides"]["A"]["train.optim<adamw>.lr"] = 0.01
    mixed = judge(turn | {"form": on, "on": False}, here)["form"]["sides"]["A"]
    assert (mixed["head.body.kind"], mixed["train.optim<adamw>.lr"]) == ("identity", 0.01)
    preset = judge({"act": "preset", "side": "A", "name": "mlp", "form": on}, here)["form"]
    assert preset["switched"]["A"] == {}


def test_corrections_that_cancel_on_the_cache_of_a_side_are_told(here, form):
    form["sides"]["B"] |= {"train.loss.logit_adjustment.tau": 1.0, "train.loss.class_weight.kind": "none"}
    assert "moves no logit" not in judge({"act": "input", "form": form}, here)["difference"]
    form["sides"]["A"]["train.loss.logit_adjustment.tau"] = 1.0
    said = judge({"act": "input", "form": form}, here)
    assert "train.loss.logit_adjustment moves no logit relative to another by more than 0.00" in said["difference"]


@pytest.mark.parametrize("place", ["sides", "split", "switched", "seeds"])
@pytest.mark.parametrize("act", ["input", "copy", "restore", "switch"])
def test_a_form_that_is_nested_without_end_is_refused_in_words(here, form, act, place):
    deep = 1
    for _ in range(3000):
        deep = [deep]
    if place == "seeds":
        form["seeds"] = deep
    else:
        key = "switched" if place == "switched" else next(iter(form[place]))
        form[place] = form[place] | {key: deep}
    asked = {"act": act, "form": form, "side": "B", "name": "SupCon", "on": True}
    assert judge(asked, here)["error"].startswith("values of a page are nested 100 deep at most, however: ")


def test_a_deep_text_of_a_side_is_told_beside_it(here, form):
    form["sides"]["B"]["posthoc.deploy_prior"] = "[" * 5000
    said = judge({"act": "input", "form": form}, here)
    assert said["error"] is None
    assert "Class shares in deployment (posthoc.deploy_prior): a value is written as YAML" in said["difference"]
