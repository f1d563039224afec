import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import Field
from typer.testing import CliRunner

from frostbench.app.cli import app
from frostbench.benchmarks.runs.runner import bench_rows
from frostbench.benchmarks.settings.parsing import SettingsError, parse, with_changes
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.benchmarks.settings.plugins import check_allowed, files_of, places_of, translated
from frostbench.heads import plugin_spec
from frostbench.heads.bundle.export import load
from frostbench.heads.plugin_files import PluginError, file_hash
from frostbench.heads.spec import Spec
from frostbench.heads.stepped.external import ExternalClassifier
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.external import ExternalLoss
from frostbench.training.run import RunSpec

PAGE = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|yaml)\n# ([\w.]+)\n(.*?)```", PAGE, re.DOTALL)
QUICK = {"train.schedule.min_steps": 20, "train.schedule.epochs": 2}


class Loss(Spec):
    point: Annotated[CrossEntropy | ExternalLoss, Field(discriminator="kind")] = CrossEntropy()


class Plain(Spec):
    kind: Literal["plain"] = "plain"


class Root(Spec):
    loss: Loss = Loss()
    classifier: Annotated[Plain | ExternalClassifier, Field(discriminator="kind")] = Plain()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files of the documentation page, in the current directory."""
    monkeypatch.chdir(tmp_path)
    for _, name, text in BLOCKS:
        Path(name).write_text(text, encoding="utf-8")


def root(changes, plugins=("my_loss.py", "my_head.py")):
    return parse(Root, translated(with_changes(Root().model_dump(mode="json"), changes), plugins, Root))


def test_places_are_found_in_the_spec():
    assert [(place.path, place.known) for place in places_of(Root)] == [
        ("loss.point", ("cross_entropy", "external")),
        ("classifier", ("plain", "external")),
    ]


def test_a_run_has_a_place_for_a_loss_and_one_for_a_head():
    assert {"train.loss.point", "head.classifier"} <= {place.path for place in places_of(RunSpec)}


def test_own_kinds_become_external(files):
    spec = root({"loss.point.kind": "my_loss", "loss.point.epsilon": 3, "classifier": {"kind": "my_head"}})
    wanted = ExternalLoss(file="my_loss.py", name="MyLoss", options={"epsilon": 3.0})
    assert spec.loss.point == wanted
    assert wanted.sha256 == file_hash("my_loss.py")
    assert spec.classifier == ExternalClassifier(file="my_head.py", name="MyHead", options={"rank": 4})


def test_an_option_beside_kind_external_reaches_the_plugin(files):
    start = {"loss.point": {"kind": "external", "file": "my_loss.py", "name": "MyLoss", "options": {"epsilon": 3}}}
    assert root(start | {"loss.point.epsilon": 5}, ()).loss.point.options == {"epsilon": 5.0}


def test_what_names_no_plugin_stays():
    tree = Root().model_dump(mode="json")
    assert translated(tree, (), Root) == tree


@pytest.mark.parametrize(
    ("changes", "plugins", "told"),
    [
        (
            {"loss.point.kind": "my_loss", "loss.point.epsilon": 11},
            ["my_loss.py"],
            "Point (loss.point): epsilon: Input should",
        ),
        (
            {"loss.point.kind": "my_loss", "loss.point.gamma": 1},
            ["my_loss.py"],
            "Point (loss.point): gamma: there is no such option here",
        ),
        ({"loss.point.kind": "my_head"}, ["my_head.py"], "must have the method __call__ or part here, but MyHead"),
        ({"loss.point.kind": "my_loss"}, [], "Point (loss.point): Input tag 'my_loss'"),
        ({}, ["gone.py"], "A plugin must be a .py file, got 'gone.py'"),
        ({}, ["empty.py"], "empty.py has none. Write `kind: Literal"),
        ({}, ["taken.py"], "'plain' of taken.py is already defined by the library. Rename the kind"),
        ({}, ["my_loss.py", "again.py"], "'my_loss' of again.py is already defined by my_loss.py"),
        ({"loss.point": {"kind": "external", "file": "gone.py", "name": "X"}}, [], "got 'gone.py', which is missing"),
    ],
)
def test_mistakes_are_told(files, changes, plugins, told):
    Path("empty.py").write_text("x = 1")
    Path("taken.py").write_text(Path("my_loss.py").read_text().replace("my_loss", "plain"))
    Path("again.py").write_text(Path("my_loss.py").read_text())
    with pytest.raises(SettingsError, match=re.escape(told)):
        root(changes, plugins)


def test_a_browser_may_name_no_other_file(files):
    spec = root({"loss.point.kind": "my_loss"})
    assert files_of(spec) == ("my_loss.py",)
    check_allowed(spec, [Path("my_loss.py").resolve()])
    check_allowed(Root(), [])
    with pytest.raises(SettingsError, match=r"accepts only \['my_head.py'\], got \['my_loss.py'\]"):
        check_allowed(spec, ["my_head.py"])


def test_a_bench_takes_plugins_in_base_toggles_and_grid(files):
    bench = BenchSpec(
        plugins=("my_loss.py", "my_head.py"),
        base={"train.loss": {"point": {"kind": "my_loss", "epsilon": 2}}},
        toggles={
            "other epsilon": {"train.loss.point.epsilon": 3},
            "no plugin": {"train.loss.point.kind": "cross_entropy"},
        },
        grid={"head.classifier.kind": ("linear", "my_head")},
        seeds=(0,),
    )
    found = {row.name: row.specs[0] for row in expand(bench)}
    assert list(found) == ["baseline", "other epsilon", "no plugin", "kind=my_head"]
    assert found["baseline"].train.loss.point.options == {"epsilon": 2.0}
    assert found["other epsilon"].train.loss.point.options == {"epsilon": 3.0}
    assert found["no plugin"].train.loss.point == CrossEntropy()
    assert found["kind=my_head"].head.classifier.name == "MyHead"


def test_a_toggle_that_states_a_default_equals_the_base(files):
    bench = BenchSpec(
        plugins=("my_loss.py",),
        base={"train.loss.point.kind": "my_loss"},
        toggles={"same": {"train.loss.point.epsilon": 1}},
    )
    with pytest.raises(SettingsError, match="'same' has the same options as 'baseline'"):
        expand(bench)


def test_an_edited_file_is_another_run(files, cache):
    bench = BenchSpec(caches=(str(cache),), plugins=("my_loss.py",), base={"train.loss.point.kind": "my_loss"})
    before = bench_rows(bench)[0].rows["baseline"]
    assert bench_rows(bench)[0].rows["baseline"] == before
    Path("my_loss.py").write_text(Path("my_loss.py").read_text() + "\n# edited\n")
    assert not set(bench_rows(bench)[0].rows["baseline"]) & set(before)


def test_the_commands_of_the_page_run(files, write_cache):
    write_cache(Path("plants"))
    tree = yaml.safe_load(Path("mine.yaml").read_text()) | {"base": QUICK}
    Path("mine.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    (block,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines():
        words = shlex.split(line)[1:]
        quick = [word for path, value in QUICK.items() for word in ("--set", f"{path}={value}")]
        run = CliRunner().invoke(app, words + (quick if words[0] == "train" else []))
        assert run.exit_code == 0, run.exception
    assert "my loss, stronger" in run.output


def test_a_bundle_of_an_own_head_needs_its_file_and_one_of_an_own_loss_does_not(files, write_cache, forget):
    write_cache(Path("plants"))
    options = ["--set", "head.classifier.kind=my_head", "--set", "train.loss.point.kind=my_loss"]
    options += [word for path, value in QUICK.items() for word in ("--set", f"{path}={value}")]
    plugins = ["--plugin", "my_head.py", "--plugin", "my_loss.py"]
    run = CliRunner().invoke(app, ["train", "plants", *plugins, *options, "--out", "head"])
    assert run.exit_code == 0, run.exception
    Path("my_loss.py").unlink()
    forget()
    with pytest.raises(PluginError, match=r"'my_head.py' with the SHA-256 .* no file was named. Read that file"):
        load(Path("head"))
    Path("elsewhere").mkdir()
    Path("my_head.py").rename("elsewhere/renamed.py")
    bundle = load(Path("head"), ["elsewhere/renamed.py"])
    assert bundle.head.spec.classifier.sha256 == file_hash("elsewhere/renamed.py")
    own = [layer.weight.shape for layer in bundle.head.head.classifier]
    assert own == [(4, 8), (6, 4)]
    said = CliRunner().invoke(app, ["predict", "head", "plants", "--plugin", "elsewhere/renamed.py"])
    assert said.exit_code == 0, said.exception
    forget()
    Path("elsewhere/renamed.py").write_text("raise RuntimeError('this must not run')")
    with pytest.raises(PluginError, match=r"no named file has it \(elsewhere/renamed.py\)"):
        load(Path("head"), ["elsewhere/renamed.py"])
    with pytest.raises(PluginError, match=r"'my_head.py', which is missing in .*Put the file there"):
        load(Path("head"), ["my_head.py"])


@pytest.fixture
def forget(monkeypatch):
    """Forget the plugin files executed so far, as in a new process."""

    def forgotten():
        for name in [name for name in sys.modules if name.startswith("frostbench_plugin_")]:
            monkeypatch.delitem(sys.modules, name)
        plugin_spec._instance.cache_clear()

    return forgotten


def test_the_script_of_the_page_runs(files, capsys):
    text = Path("notebook.py").read_text(encoding="utf-8")
    seen = {}
    exec(compile(text, "notebook.py", "exec"), seen)
    assert set(seen["names"]) == {"ash", "beech", "elm", "fir"}
    assert (seen["names"] == seen["labels"]).mean() > 0.6
    assert seen["found"].comparison.seeds == (0, 1, 2)
    assert re.search(r"'my loss' (is|cannot).* 'cross entropy' on macro_f1_fg", capsys.readouterr().out)
