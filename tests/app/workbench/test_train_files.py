"""Files that a form names, and values that are nested too deeply: nothing outside the folder of the page is read."""

import json

import pytest
from train_form import first_form

from frostbench.app.sides import ROWS
from frostbench.app.workbench.train.answers import train_answers
from frostbench.app.workbench.train.form import SPLIT_ROWS
from frostbench.app.workspace import Workspace

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


@pytest.fixture
def here(cache, tmp_path):
    """A workspace whose root is not the folder of the files."""
    (tmp_path / "root").mkdir()
    return Workspace(tmp_path / "root", (cache,), tmp_path / "results")


@pytest.fixture
def form(here):
    return json.loads(json.dumps(first_form(here)))


@pytest.fixture
def reads(monkeypatch):
    """Record every file that is hashed."""
    found = []

    def hashed(path):
        found.append(str(path))
        return "0" * 64

    monkeypatch.setattr("frostbench.heads.file_hash.file_sha256", hashed)
    return found


def test_every_line_option_is_declared_as_file_or_not():
    lines = [row for row in (*ROWS, *SPLIT_ROWS) if row.control == "line"]
    assert {row.key for row in lines if row.is_file} == {*FILES, "roles_from"}
    assert {row.path.rpartition(".")[2] for row in lines if not row.is_file} == {"name", "sha256"}


@pytest.mark.parametrize("key", FILES)
def test_a_file_outside_the_root_is_never_read(here, form, tmp_path, reads, key):
    (tmp_path / "secret").write_text("secret")
    form["sides"]["B"] |= FILES[key] | {key: str(tmp_path / "secret")}
    answers, root = train_answers(here), tmp_path / "root"
    told = answers["train-check"]({"form": form})
    assert told["sides"]["B"]["errors"][key].startswith(f"The page only reads files below {root}, and ")
    with pytest.raises(ValueError, match="can be switched once"):
        answers["train-check"]({"form": form, "switch": {"side": "B", "name": "SupCon", "on": True}})
    for name in ("train-start", "train-estimate"):
        with pytest.raises(ValueError, match="The page only reads files below"):
            answers[name]({"form": form, "sides": ["B"]})
    assert "The page only reads files below" in answers["train-plan"]({"form": form, "sides": ["B"]})["problems"][0]
    assert reads == []


def test_a_file_of_roles_outside_the_root_is_refused(here, form, tmp_path):
    (tmp_path / "roles.csv").write_text("id,role\nsecret,secret\n")
    form["split"]["roles_from"] = str(tmp_path / "roles.csv")
    told = train_answers(here)["train-check"]({"form": form})["shared"]
    assert told["roles_from"].startswith("The page only reads files below ")


def test_files_are_read_once_and_only_for_active_options(form, cache, tmp_path, reads):
    here = Workspace(tmp_path, (cache,), tmp_path / "results")
    check = train_answers(here)["train-check"]
    (tmp_path / "words.npz").write_bytes(b"weights")
    form["sides"]["B"] |= {key: str(tmp_path / "words.npz") for key in FILES}
    assert check({"form": form})["sides"]["B"]["errors"] == {}
    assert reads == []
    form["sides"]["B"]["head.classifier.kind"] = "zero_shot"
    for _ in range(3):
        check({"form": form})
    assert reads == [str(tmp_path / "words.npz")]
    (tmp_path / "words.npz").write_bytes(b"others")
    check({"form": form})
    assert len(reads) == 2


@pytest.mark.parametrize("part", ["sides", "split", "switched", "seeds"])
@pytest.mark.parametrize("name", ["train-check", "train-plan", "train-start"])
def test_a_deeply_nested_form_is_refused(here, form, name, part):
    deep = 1
    for _ in range(3000):
        deep = [deep]
    if part == "seeds":
        form["seeds"] = deep
    else:
        key = "switched" if part == "switched" else next(iter(form[part]))
        form[part] = form[part] | {key: deep}
    with pytest.raises(ValueError, match=r"The page sent values nested more than 100 levels deep\."):
        train_answers(here)[name]({"form": form, "sides": ["B"]})


def test_a_deep_text_of_a_side_is_an_error_of_that_side(here, form):
    form["sides"]["B"]["posthoc.deploy_prior"] = "[" * 5000
    told = train_answers(here)["train-check"]({"form": form})["sides"]
    assert told["A"]["errors"] == {}
    assert told["B"]["errors"]["posthoc.deploy_prior"].startswith("This must be written as YAML, ")


def test_a_switch_restores_what_it_changed_except_later_edits(here, form):
    check = train_answers(here)["train-check"]
    turn = {"side": "A", "name": "SupCon"}
    on = check({"form": form, "switch": turn | {"on": True}})
    assert on["values"]["A"]["head.body.kind"] == "mlp"
    form |= {"sides": on["values"], "switched": on["switched"]}
    form["sides"]["A"]["train.loss.supcon.temperature"] = 0.2
    form["sides"]["A"]["train.optim<adamw>.lr"] = 0.01
    off = check({"form": form, "switch": turn | {"on": False}})["values"]["A"]
    assert (off["head.body.kind"], off["train.optim<adamw>.lr"]) == ("identity", 0.01)
