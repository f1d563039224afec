"""No code in a bundle, or named by it, runs unless the user names the file."""

import hashlib
import json
import shutil
from dataclasses import replace

import pytest
import torch

from frostbench.heads.bundle.export import BundleError, load, load_head, save
from frostbench.heads.bundle.files import sealed
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.head import HeadSpec
from frostbench.heads.plugin_files import PluginError, file_hash
from frostbench.heads.stepped.external import ExternalClassifier
from frostbench.heads.trained import Priors, TrainedHead

HEAD = """
from torch import nn
from frostbench.heads.spec import Spec

open({ran!r}, "w").close()

class Plain(Spec):
    def build(self, dim, classes, generator):
        return nn.Linear(dim, classes)
"""


@pytest.fixture
def ran(tmp_path):
    """A file that the plugin in the bundle creates when it is run."""
    return tmp_path / "ran"


@pytest.fixture
def bundle(tmp_path, ran, monkeypatch):
    """A bundle whose card names a plugin file inside it."""
    monkeypatch.chdir(tmp_path)
    head = linear()
    save(head, tmp_path / "bundle")
    (tmp_path / "bundle" / "evil.py").write_text(HEAD.format(ran=str(ran)))
    name_in_card(tmp_path / "bundle", file_hash("bundle/evil.py"))
    return tmp_path / "bundle"


def linear():
    generator = torch.Generator().manual_seed(0)
    spec = HeadSpec()
    share = torch.ones(3, dtype=torch.float64) / 3
    return TrainedHead(
        spec=spec,
        head=spec.build(torch.randn(20, 5, generator=generator), 3, generator).eval(),
        columns=("avg",),
        class_names=("a", "b", "c"),
        priors=Priors(torch.tensor([5, 5, 5]), share, share, share),
        shift=torch.zeros(3),
    )


def name_in_card(folder, sha256):
    """Write a card that names the plugin, as the creator of a bundle could."""
    card = json.loads((folder / "card.json").read_text())
    named = {"kind": "external", "file": "bundle/evil.py", "name": "Plain"}
    card["head"]["classifier"] = named if sha256 is None else named | {"sha256": sha256}
    (folder / "card.json").write_text(json.dumps(sealed(card)))


@pytest.mark.parametrize("sha256", [None, "", "0" * 63, "F" * 64, 5])
@pytest.mark.parametrize("plugins", [(), ("bundle/evil.py",)])
def test_a_file_without_its_hash_is_rejected(bundle, ran, sha256, plugins):
    name_in_card(bundle, sha256)
    for read in (load, load_head):
        with pytest.raises(BundleError, match=r"with its SHA-256, got .* for 'bundle/evil.py'"):
            read(bundle, plugins)
    assert not ran.exists()


def test_a_file_that_was_not_named_is_not_run(bundle, ran, tmp_path):
    other = tmp_path / "other.py"
    other.write_text(f"open({str(tmp_path / 'other ran')!r}, 'w').close()")
    for plugins in ((), [other]):
        for read in (load, load_head):
            with pytest.raises(PluginError, match=r"runs only if you name its file.*bundle/evil.py"):
                read(bundle, plugins)
    assert not ran.exists()
    assert not (tmp_path / "other ran").exists()


def test_a_file_that_was_named_is_run(bundle, ran):
    found = load(bundle, ["bundle/evil.py"]).head
    assert ran.exists()
    assert isinstance(found.spec.classifier, ExternalClassifier)


def test_a_file_that_is_not_needed_is_not_run(tmp_path, ran):
    save(linear(), tmp_path / "plain")
    (tmp_path / "mine.py").write_text(HEAD.format(ran=str(ran)))
    load(tmp_path / "plain", [tmp_path / "mine.py"])
    assert not ran.exists()


def test_members_of_an_ensemble_run_no_code_either(bundle, ran, tmp_path):
    save(Ensemble((linear(), replace(linear(), facts={"n": 2}))), tmp_path / "two")
    for file in ("evil.py", "card.json"):
        shutil.copy(bundle / file, tmp_path / "two" / "member-1" / file)
    card = json.loads((tmp_path / "two" / "ensemble.json").read_text())
    card["members"]["member-1"] = hashlib.sha256((bundle / "card.json").read_bytes()).hexdigest()
    (tmp_path / "two" / "ensemble.json").write_text(json.dumps(sealed(card)))
    with pytest.raises(PluginError, match="runs only if you name its file"):
        load(tmp_path / "two")
    assert not ran.exists()
    load(tmp_path / "two", ["bundle/evil.py"])
    assert ran.exists()
