import hashlib
import re
import sys

import pytest
import torch
from torch import nn

from frostbench.heads.plugin_files import PluginError, file_hash, run_plugin
from frostbench.heads.spec import canonical, numbers, skeleton
from frostbench.heads.stepped.external import ExternalClassifier

HEAD = """
from typing import ClassVar, Literal
import torch
from pydantic import Field
from torch import nn
from frostbench.heads.spec import SWEPT, Spec

class Low(Spec):
    kind: Literal["low"] = "low"
    rank: int = Field(default=2, ge=1, le=8)
    gain: float = Field(default=1.0, gt=0, json_schema_extra=SWEPT)

    def build(self, dim, classes, generator):
        return nn.Sequential(nn.Linear(dim, self.rank), nn.Linear(self.rank, classes))

class Margin(Spec):
    kind: Literal["margin"] = "margin"
    m: float = 0.5

    def build(self, dim, classes, generator):
        module = nn.Linear(dim, classes)
        module.scale = 10.0
        return module

    def margined(self, logits, own, counts, scale, progress):
        return logits - scale * self.m * nn.functional.one_hot(own, logits.shape[-1])

class NoScale(Margin):
    def build(self, dim, classes, generator):
        return nn.Linear(dim, classes)

class Wide(Spec):
    def build(self, dim, classes, generator):
        return nn.Linear(dim, classes + 1)

class Branch(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.layer = nn.Linear(dim, classes)

    def forward(self, h):
        z = self.layer(h)
        return z if z.sum() > 0 else -z

class Branching(Spec):
    def build(self, dim, classes, generator):
        return Branch(dim, classes)

class Looped(Branching):
    stacks: ClassVar[bool] = False

class NoHead(Spec):
    pass
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(HEAD)
    run_plugin(path)
    return str(path)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_it_builds_the_plugin_s_module(file):
    module = ExternalClassifier(file=file, name="Low", options={"rank": 3}).build(5, 4, seeded())
    assert [tuple(p.shape) for p in module.parameters()] == [(3, 5), (3,), (4, 3), (4,)]
    assert module.training


def test_initial_weights_depend_only_on_the_generator(file):
    spec = ExternalClassifier(file=file, name="Low")
    before = torch.random.get_rng_state()
    one = spec.build(5, 4, seeded(1)).state_dict()
    torch.rand(7)
    again, other = (spec.build(5, 4, seeded(s)).state_dict() for s in (1, 2))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["0.weight"], other["0.weight"])
    torch.random.set_rng_state(before)
    spec.build(5, 4, seeded())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_spec_identifies_the_content_of_the_file(file):
    spec = ExternalClassifier(file=file, name="Low", options={"rank": 3})
    sha256 = hashlib.sha256(HEAD.encode()).hexdigest()
    assert canonical(spec) == {
        "kind": "external",
        "file": file,
        "name": "Low",
        "sha256": sha256,
        "options": {"rank": 3},
    }
    assert ExternalClassifier.model_validate_json(spec.model_dump_json()) == spec


def test_options_are_constants_of_a_stack(file):
    specs = [ExternalClassifier(file=file, name="Low", options={"gain": gain}) for gain in (1.0, 2.0)]
    assert numbers(specs[0]) == {}
    assert skeleton(specs[0]) != skeleton(specs[1])


def test_neither_reading_nor_building_a_spec_runs_its_file(tmp_path):
    path = tmp_path / "loud.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    spec = ExternalClassifier(file=str(path), name="Any")
    for use in (spec.inner, lambda: spec.build(3, 4, seeded()), lambda: spec.stacks, lambda: spec.has_margin):
        with pytest.raises(PluginError, match=r"runs only if you name its file.*pass `--plugin FILE`"):
            use()
    assert not (tmp_path / "ran").exists()
    assert run_plugin(path) == spec.sha256
    assert (tmp_path / "ran").exists()
    with pytest.raises(PluginError, match=r"defines \[\], got 'Any'"):
        spec.inner()


def test_a_file_is_run_once(tmp_path):
    path = tmp_path / "counted.py"
    path.write_text(f"with open({str(tmp_path / 'times')!r}, 'a') as file: file.write('x')")
    assert run_plugin(path) == run_plugin(str(path)) == run_plugin(path, file_hash(path))
    assert (tmp_path / "times").read_text() == "x"


def test_a_changed_file_is_rejected_and_one_already_run_is_kept(file, tmp_path):
    old = ExternalClassifier(file=file, name="Low")
    old.build(5, 4, seeded())
    (tmp_path / "mine.py").write_text(HEAD.replace("default=2", "default=5"))
    assert old.build(5, 4, seeded())[0].out_features == 2
    new = ExternalClassifier(file=file, name="Low")
    with pytest.raises(PluginError, match="was not named"):
        new.build(5, 4, seeded())
    with pytest.raises(PluginError, match=r"must have the SHA-256 0000.*Restore that file"):
        run_plugin(file, "0" * 64)
    run_plugin(file)
    assert new.build(5, 4, seeded())[0].out_features == 5


@pytest.mark.parametrize(
    ("fields", "error_text"),
    [
        ({"file": "gone.py"}, "must be a .py file, got 'gone.py', which is missing.*Put the file there"),
        ({"file": ""}, "must be a .py file, got ''"),
        ({"name": "Lo"}, "got 'Lo'. Choose one of these"),
        ({"name": "NoHead"}, "must have the method build here, but NoHead of .* does not"),
        (
            {"options": {"rnk": 1}},
            r"rnk: there is no such option here, got 1.\nThe options of Low.*\['rank', 'gain'\]",
        ),
        ({"options": {"rank": 0}}, "rank: Input should be greater than or equal to 1, got 0"),
        ({"name": "Wide"}, r"returns \[2, 5\] for h \[2, 3\] and 4 classes"),
        ({"name": "NoScale"}, "a module with the attribute `scale`, but that of NoScale has none"),
        ({"name": "Branching"}, "must run under torch.func.vmap, but Branching fails with .*stacks: ClassVar"),
    ],
)
def test_mistakes_are_reported(file, fields, error_text):
    spec = ExternalClassifier(**{"file": file, "name": "Low"} | fields)
    with pytest.raises(PluginError, match=f"(?s){error_text}"):
        spec.build(3, 4, seeded())


def test_a_failing_file_is_reported_and_leaves_no_module(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import nothing_of_that_name")
    before = set(sys.modules)
    with pytest.raises(PluginError, match="fails with ModuleNotFoundError: No module named 'nothing_of_that_name'"):
        run_plugin(path)
    path.write_text("raise SystemExit")
    with pytest.raises(PluginError, match="fails with SystemExit"):
        run_plugin(path)
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("from heads.spec import Spec", "from frostbench.heads.spec import Spec"),
        ("import os, training.metrics as m", "import os, frostbench.training.metrics as m"),
    ],
)
def test_an_import_by_an_old_name_is_reported_with_its_correction(tmp_path, line, instead):
    path = tmp_path / "old.py"
    path.write_text(f'"""A plugin."""\n\n{line}\n')
    folder = instead.split("frostbench.")[1].split(".")[0]
    message = f"'{folder}' as 'frostbench.{folder}', but line 3 of {path} is `{line}`. Write `{instead}`."
    with pytest.raises(PluginError, match=re.escape(message)):
        run_plugin(path)


def test_a_package_of_the_user_may_have_an_old_name(tmp_path, monkeypatch):
    (tmp_path / "configs.py").write_text("epsilon = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text("from configs import epsilon\ntry:\n    import heads.nothing\nexcept ImportError:\n    pass\n")
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "configs", raising=False)
        assert run_plugin(path) == file_hash(path)
    del sys.modules["configs"]


def test_a_class_may_opt_out_of_stacking(file):
    assert ExternalClassifier(file=file, name="Low").stacks
    looped = ExternalClassifier(file=file, name="Looped")
    assert not looped.stacks
    assert isinstance(looped.build(3, 4, seeded()), nn.Module)


def test_the_margin_comes_from_the_plugin(file):
    spec = ExternalClassifier(file=file, name="Margin", options={"m": 0.25})
    logits, own = torch.zeros(2, 3), torch.tensor([2, 0])
    assert spec.has_margin
    moved = spec.margined(logits, own, torch.ones(3), 10.0, 1.0)
    assert moved.tolist() == [[0, 0, -2.5], [-2.5, 0, 0]]
    low = ExternalClassifier(file=file, name="Low")
    assert not low.has_margin
    assert low.margined(logits, own, torch.ones(3), 10.0, 1.0) is logits
