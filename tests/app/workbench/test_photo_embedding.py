"""Looking at photos, measuring, and embedding them in a process of their own, without a browser."""

import json
import shutil
import subprocess
import sys
import time

import psutil
import pytest

from frostbench.app.workbench.photos import looking
from frostbench.app.workbench.photos.answers import answers
from frostbench.app.workbench.photos.embedding import LOST, Embedding
from frostbench.app.workbench.photos.keeping import PhotoSets
from frostbench.app.workbench.photos.records import EmbeddingRequest, read_process, write
from frostbench.app.workbench.predict.process import PredictionProcess
from frostbench.app.workspace import Workspace
from frostbench.embedcache.checking.verify import cache_info

LITE = "bundled:efficientnet_lite0"
ENDED = ("done", "stopped", "failed", "lost")


@pytest.fixture
def root(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "root" / "digits")
    return tmp_path / "root"


@pytest.fixture
def workspace(root):
    return Workspace(root, (), root / "results")


@pytest.fixture
def ask(workspace, monkeypatch):
    """Ask until the answer is no longer being computed; what other processes do is done here."""
    monkeypatch.setattr(
        PredictionProcess, "call", lambda _, name, *arguments: getattr(looking, name.rsplit(".", 1)[1])(*arguments)
    )
    functions = answers(workspace, PhotoSets(workspace.root), PredictionProcess(), workspace.scratch)

    def until_ready(name, request=None):
        deadline = time.monotonic() + 120
        while (answer := functions[name](request)).get("state") == "computing":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return answer

    return until_ready


@pytest.fixture
def embedding(workspace):
    made = Embedding(workspace)
    yield made
    process = read_process(workspace.store / "embedding")
    if process is not None and psutil.pid_exists(process.pid) and "photos.worker" in " ".join(command_of(process.pid)):
        psutil.Process(process.pid).kill()


def command_of(pid):
    try:
        return psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return []


def wait(embedding, *states):
    """Return the embedding once it is in one of the states."""
    deadline = time.monotonic() + 120
    while (found := embedding.state())["state"] not in states:
        assert found["state"] not in ENDED, found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def request_of(**changes):
    return EmbeddingRequest(**{"folder": "digits", "cache": "new", "backbone": LITE} | changes)


WHERE = {"folder": "digits", "regex": "", "ticket": "1"}


def test_a_folder_is_looked_at(ask, root):
    (root / "digits" / "notes.txt").touch()
    found = ask("photos-look", WHERE)
    assert (found["images"], found["source"], found["name"]) == (93, "digits", "digits-2")
    assert found["classes"] == [["digit 0", 41], ["digit 1", 40], ["digit 8", 12]]
    assert "1 file without an image extension was skipped: 1 × .txt." in found["notes"]
    assert any(note.startswith("NO GROUPS") for note in found["notes"])
    assert ask("photos-look", WHERE | {"regex": "^([^/]+)/"})["groups"] == 3


def test_a_folder_around_the_folder_of_the_classes_is_passed(ask, root):
    (root / "around" / "outer").mkdir(parents=True)
    shutil.move(root / "digits", root / "around" / "outer" / "inner")
    assert ask("photos-look", WHERE | {"folder": "around"})["source"] == "around/outer/inner"


def test_a_manifest_in_the_folder_is_used(ask, root):
    (root / "digits" / "manifest.csv").write_text(
        "path,label,group\ndigit 0/0000.png,nought,g\ndigit 1/0001.png,one,h\n"
    )
    found = ask("photos-look", WHERE)
    assert (found["images"], found["source"], found["groups"]) == (2, "digits/manifest.csv", 2)
    assert found["name"] == "digits-2"


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("nowhere", "'nowhere' is not a readable folder below"),
        ("../..", "is not a readable folder below"),
        ("/etc", "is not a readable folder below"),
        (".", "that does not hold the run store"),
        ("flat", "must name the classes, but there are none (1 image is directly in it)"),
        ("outside", "The page only reads images below"),
        ("listed", "The page only reads images below"),
    ],
)
def test_folders_that_cannot_be_used_are_refused(ask, root, folder, message, tmp_path):
    secret = tmp_path / "secret.png"
    shutil.copy(next((root / "digits" / "digit 1").iterdir()), secret)
    for name in ("flat", "outside/cats", "listed"):
        (root / name).mkdir(parents=True)
    shutil.copy(secret, root / "flat" / "1.png")
    (root / "outside" / "cats" / "1.png").symlink_to(secret)
    (root / "listed" / "manifest.csv").write_text(f"path,label\n{secret},a\n")
    with pytest.raises(ValueError, match=r".") as error:
        ask("photos-look", WHERE | {"folder": folder})
    assert message in str(error.value)


def test_the_time_is_measured_on_a_few_images(ask, workspace, monkeypatch):
    monkeypatch.setattr(looking, "MEASURED", 31)
    found = ask("photos-measure", WHERE | {"backbone": LITE})
    assert found["measured"] == 31
    assert found["seconds"] == pytest.approx(93 / found["rate"], rel=0.02, abs=0.06)
    assert found["column"] == "1,280 numbers per image, 224 px"
    assert list(workspace.scratch.iterdir()) == []
    assert workspace.cache_names() == []


def test_the_error_of_a_backbone_is_told(ask):
    found = ask("photos-measure", WHERE | {"backbone": "timm:resnt50"})
    assert found["error"].startswith("timm:resnt50 cannot be loaded: ")
    assert "similar: resnet50" in found["error"]


def test_photos_that_cannot_be_read_are_told_before_they_are_embedded(ask, root):
    (root / "bad" / "cats").mkdir(parents=True)
    (root / "bad" / "cats" / "1.png").write_bytes(b"no image")
    found = ask("photos-measure", WHERE | {"folder": "bad", "backbone": LITE})
    assert "none of 1 could be read, is not an image in a supported format." in found["error"]


@pytest.mark.parametrize(
    "backbone",
    [
        "onnx:/etc/passwd",
        "open_clip:local-dir:/etc",
        "huggingface:/etc",
        "timm:../x",
        "resnet50",
        "timm:a b",
        "x" * 300,
    ],
)
def test_backbones_that_name_files_are_refused(ask, backbone, embedding):
    for name in ("photos-measure", "photos-embed"):
        with pytest.raises(ValueError, match="A backbone must be named PROVIDER:MODEL"):
            ask(name, WHERE | {"backbone": backbone, "cache": "new"})
    assert embedding.state() is None


def test_backbones_on_this_machine_come_first(ask):
    found = ask("photos-backbones")["backbones"]
    assert found[0]["name"] == LITE
    assert found[0]["here"] is True
    assert [one["here"] for one in found] == sorted((one["here"] for one in found), reverse=True)


@pytest.mark.parametrize("name", ["", "../new", "a/b", ".hidden", "-x", "a b", "é", "x" * 81, "a\n"])
def test_a_name_must_be_a_plain_one(ask, name):
    found = ask("photos-name", WHERE | {"cache": name})
    assert found["problem"].startswith("A cache's name must have 1 to 80 letters, digits")


def test_names_that_are_taken_are_refused(ask, root, cache, workspace):
    shutil.copytree(cache, root / "finished")
    (root / "file").touch()
    (root / "link").symlink_to(root / "nowhere")
    (root / "empty").mkdir()
    taken = {"digits": "exists already. Choose another name.", "finished": "exists already.", "file": "is no folder."}
    taken |= {"link": "is no folder.", "results": "is the folder of the run store."}
    for name, problem in taken.items():
        assert problem in ask("photos-name", WHERE | {"cache": name})["problem"], name
        with pytest.raises(ValueError, match=name):
            ask("photos-embed", WHERE | {"cache": name, "backbone": LITE})
    for name in ("empty", "new", "New_1.0"):
        assert ask("photos-name", WHERE | {"cache": name}) == {"state": "ready", "problem": "", "resumes": False}


def test_an_unfinished_cache_is_continued_only_with_the_same_photos(ask, root, cache):
    shutil.copytree(cache, root / "half")
    (root / "half" / "manifest.json").unlink()
    asked = WHERE | {"cache": "half"}
    assert ask("photos-name", asked)["problem"] == "half is an unfinished cache of other images. Choose another name."
    tree = json.loads((root / "half" / "cache.json").read_text())
    tree["source"]["root"] = str(root / "digits")
    (root / "half" / "cache.json").write_text(json.dumps(tree))
    assert ask("photos-name", asked) == {"state": "ready", "problem": "", "resumes": True}
    (root / "half" / "cache.json").write_text("[")
    assert "of other images" in ask("photos-name", asked)["problem"]


def test_photos_are_embedded_and_the_command_makes_the_same_cache(ask, root, embedding, frostbench, monkeypatch):
    ask("photos-embed", WHERE | {"cache": "new", "backbone": LITE})
    with pytest.raises(ValueError, match="Another embedding is running"):
        ask("photos-embed", WHERE | {"cache": "newer", "backbone": LITE})
    assert embedding.summary() is not None
    found = wait(embedding, "done")
    assert (found["total"], found["n_bad"], found["done"]) == (93, 1, 93)
    assert [list(row) for row in found["bad"]] == [["digit 0/broken.png", "is not an image in a supported format"]]
    assert embedding.summary() is None
    assert ask("photos-state")["embedding"]["name"] == str(root / "new")
    assert cache_info(root / "new")["n_ok"] == 92
    words = ["frostbench", "embed", "digits", "--cache", "new", "--backbone", LITE, "--shard-rows", "64"]
    assert found["command"].split() == words
    monkeypatch.chdir(root)
    again = frostbench(*words[1:])
    assert again.status == 0, again.err
    assert "nothing was left to do" in again.out


def test_a_finished_cache_is_found_at_once(ask, workspace, embedding):
    assert workspace.cache_names() == []
    ask("photos-embed", WHERE | {"cache": "new", "backbone": LITE})
    wait(embedding, "done")
    ask("photos-state")
    assert workspace.cache_names() == [str(workspace.root / "new")]


@pytest.fixture
def many(root):
    """Four hundred photos, of which a stop leaves some parts and not others."""
    for path in list((root / "digits" / "digit 1").iterdir()):
        for number in range(8):
            shutil.copy(path, path.with_name(f"{number}-{path.name}"))


def test_an_embedding_stops_and_another_server_resumes_it(workspace, many, embedding, root):
    embedding.start(request_of())
    while wait(embedding, "starting", "listing", "loading", "embedding")["kept"] < 64:
        time.sleep(0.02)
    embedding.stop()
    stopped = wait(embedding, "stopped")
    assert 64 <= stopped["kept"] == stopped["done"] < stopped["total"] == 413
    assert stopped["kept"] % 64 == 0
    with pytest.raises(ValueError, match="No embedding is running"):
        embedding.stop()
    other = Embedding(workspace)
    other.resume()
    found = wait(other, "done")
    assert (found["done"], found["n_bad"]) == (413, 1)
    assert cache_info(root / "new")["n_ok"] == 412
    with pytest.raises(ValueError, match="There is no embedding to resume"):
        other.resume()


def test_an_embedding_whose_process_was_killed_is_lost_and_resumes(workspace, many, embedding, root):
    embedding.start(request_of())
    while wait(embedding, "starting", "listing", "loading", "embedding")["kept"] < 64:
        time.sleep(0.02)
    psutil.Process(read_process(workspace.store / "embedding").pid).kill()
    found = wait(embedding, "lost")
    assert found["error"] == LOST
    assert found["done"] == found["kept"] >= 64
    embedding.resume()
    assert wait(embedding, "done")["done"] == 413


def test_a_stop_while_a_backbone_is_loaded_is_heeded(embedding):
    embedding.start(request_of())
    embedding.stop()
    assert wait(embedding, "stopped")["kept"] == 0


def test_an_embedding_that_fails_says_why_and_can_be_forgotten(embedding, workspace):
    embedding.start(request_of(backbone="timm:resnt50"))
    found = wait(embedding, "failed")
    assert "similar: resnet50" in found["error"]
    assert workspace.cache_names() == []
    embedding.forget()
    assert embedding.state() is None


def test_photos_of_which_none_can_be_read_are_a_failure(embedding, root):
    for path in (root / "digits").rglob("*.png"):
        path.write_bytes(b"no image")
    embedding.start(request_of())
    found = wait(embedding, "failed")
    assert found["error"] == "None of the photos could be read. Repair the files, then resume."
    assert found["n_bad"] == 93


@pytest.mark.parametrize("changes", [{"folder": "../.."}, {"cache": "../x"}, {"backbone": "onnx:/etc/passwd"}])
def test_a_request_that_the_page_would_not_make_is_not_resumed(workspace, embedding, changes):
    folder = workspace.store / "embedding"
    folder.mkdir(parents=True)
    write(folder, request_of(**changes))
    (folder / "status.json").write_text('{"state": "stopped"}')
    with pytest.raises(ValueError, match=r"not a readable folder|A cache's name|A backbone must"):
        embedding.resume()
    assert read_process(folder) is None


@pytest.mark.parametrize("content", ["[", "{}", '{"folder": 3}', "null"])
def test_a_damaged_request_counts_as_none(workspace, embedding, content):
    folder = workspace.store / "embedding"
    folder.mkdir(parents=True)
    (folder / "request.json").write_text(content)
    assert embedding.state() is None
    assert embedding.summary() is None


@pytest.mark.parametrize("request_", [None, [], {"folder": 3}, {"folder": "x" * 1001}])
def test_requests_of_another_form_are_refused(ask, request_):
    with pytest.raises(ValueError, match="A request states folder as a text"):
        ask("photos-look", request_)


def test_the_server_imports_no_torch_for_photos():
    modules = "answers, embedding, keeping, receiving, records, sources, worker"
    code = f"import sys; from frostbench.app.workbench.photos import {modules}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
