import pytest

from frostbench.benchmarks.settings.parsing import (
    SettingsError,
    load_yaml,
    parse,
    preset,
    preset_names,
    run_key,
    split_override,
    with_changes,
)
from frostbench.benchmarks.settings.reading import read_yaml
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.heads.bodies.body import Identity, Mlp
from frostbench.training.checks.conflicts import check
from frostbench.training.losses.class_weights import EffectiveWeight, NoWeight
from frostbench.training.run import RunSpec


class TestParse:
    def test_yaml_differences_and_overrides_lie_over_the_defaults(self):
        spec = parse(RunSpec, {"train": {"optim": {"lr": 0.01}}}, ["train.optim.weight_decay=0", "seed=3"])
        assert (spec.train.optim.lr, spec.train.optim.weight_decay, spec.seed) == (0.01, 0, 3)

    def test_a_field_of_the_default_kind_needs_no_kind(self):
        assert parse(RunSpec, {}, ["train.optim.lr=1e-2"]).train.optim.lr == 0.01

    def test_a_new_kind_starts_its_branch_anew_whatever_the_order(self):
        base = {"train": {"loss": {"class_weight": {"kind": "effective", "beta": 0.9}}}}
        assert parse(RunSpec, base, ["train.loss.class_weight.kind=none"]).train.loss.class_weight == NoWeight()
        both = ["train.loss.class_weight.beta=0.99", "train.loss.class_weight.kind=effective"]
        assert parse(RunSpec, {}, both).train.loss.class_weight == EffectiveWeight(beta=0.99)

    def test_the_same_kind_keeps_its_branch(self):
        base = {"head": {"body": {"kind": "mlp", "dropout": 0.5}}}
        found = parse(RunSpec, base, ["head.body.kind=mlp", "head.body.hidden=[64]"])
        assert found.head.body == Mlp(hidden=(64,), dropout=0.5)
        assert parse(RunSpec, base, ["head.body.kind=identity"]).head.body == Identity()

    @pytest.mark.parametrize(
        ("override", "said"),
        [
            ("train.loss.hardmine.kep=0.5", "Did you mean train.loss.hardmine.keep?"),
            (
                "train.loss.smoothing.epsilon=2",
                "Label smoothing ε (train.loss.smoothing.epsilon): Input should be less than 1, got 2.",
            ),
            ("head.body.kind=cnn", "does not match any of the expected tags: 'identity', 'mlp'"),
            (
                "head.body.dropout=0.1",
                "got 0.1. It exists only for kind mlp: set head.body.kind=mlp.",
            ),
            ("train.los=1", "Did you mean train.loss?"),
            (
                "background=[no]",
                "Background classes (background.0): Input should be a valid string, got False. Put it",
            ),
            ("head.body=mlp", "Write head.body.kind=mlp."),
            ("seed=true", "seed must be a number, got true"),
            ("train.optim.lr=true", "Optimiser (train.optim): lr must be a number"),
            ("seed", "An override must have the form a.b=value, got 'seed'"),
            ("seed=[1", "The value of an override must be YAML, got 'seed=[1'"),
            ("head=3", "Head (head): Input should be"),
        ],
    )
    def test_a_wrong_override_is_told_in_words(self, override, said):
        with pytest.raises(SettingsError) as error:
            parse(RunSpec, {}, [override])
        assert said in str(error.value)

    def test_an_option_is_set_once(self):
        with pytest.raises(SettingsError, match=r"Learning rate \(train.optim.lr\) is set twice"):
            parse(RunSpec, {}, ["train.optim.lr=1", "train.optim.lr=2"])

    def test_all_errors_are_told_at_once(self):
        with pytest.raises(SettingsError) as error:
            parse(RunSpec, {}, ["seed=-1", "train.optim.lr=0"])
        assert "Seed (seed): " in str(error.value)
        assert "Learning rate (train.optim.lr): " in str(error.value)


def test_numbers_without_a_dot_are_numbers_and_names_stay_names():
    assert split_override("a=1e-3") == ("a", 0.001)
    assert split_override("a=[1E4, '07', no_bird]") == ("a", [10000.0, "07", "no_bird"])
    assert parse(RunSpec, {}, ["background=['1e5']"]).background == ("1e5",)


def test_the_paths_of_the_options_listing_can_be_given_as_they_are():
    found = parse(RunSpec, {}, ["head.body.kind=mlp", "head.body<mlp>.hidden=[8]"])
    assert found.head.body == Mlp(hidden=(8,))


def test_changes_lie_over_a_tree_without_touching_it():
    tree = {"a": {"b": 1, "c": 2}}
    assert with_changes(tree, {"a.b": 5, "d": {"e": 1}}) == {"a": {"b": 5, "c": 2}, "d": {"e": 1}}
    assert tree == {"a": {"b": 1, "c": 2}}


def test_files_that_hold_no_settings_are_told(tmp_path):
    with pytest.raises(SettingsError, match=r"Cannot read the settings file .*none.yaml: No such file"):
        load_yaml(tmp_path / "none.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(SettingsError, match="holds a list"):
        load_yaml(tmp_path / "list.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1")
    with pytest.raises(SettingsError, match="must be YAML"):
        load_yaml(tmp_path / "bad.yaml")
    with pytest.raises(SettingsError, match="Is a directory"):
        load_yaml(tmp_path)
    (tmp_path / "twice.yaml").write_text("toggles:\n  a: {seed: 1}\n  a: {seed: 2}\n")
    with pytest.raises(SettingsError, match="duplicate key a"):
        load_yaml(tmp_path / "twice.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert load_yaml(tmp_path / "empty.yaml") == {}


class TestPresets:
    def test_a_name_that_is_none_is_told_those_that_are(self):
        with pytest.raises(SettingsError, match=f"'best' is not one of the presets: {', '.join(preset_names())}"):
            preset("best")
        with pytest.raises(SettingsError, match=r"'basline' is not one of the presets: .*Did you mean baseline\?"):
            preset("basline")

    @pytest.mark.parametrize("name", ["baseline", "full", "plain"])
    def test_each_is_valid_and_without_warnings(self, name):
        assert check(parse(RunSpec, preset(name))) == ()

    def test_baseline_is_smoothing_and_effective_weights_and_nothing_else(self):
        changes = {"train.loss.smoothing.epsilon": 0.1, "train.loss.class_weight": {"kind": "effective"}}
        assert parse(RunSpec, preset("baseline")) == parse(RunSpec, with_changes({}, changes))

    def test_full_is_what_it_says(self):
        spec = parse(RunSpec, preset("full"))
        assert (spec.head.preprocess.center, spec.head.preprocess.std) == (True, True)
        assert spec.head.body == Mlp(hidden=(768, 384), block_order="ln_gelu")
        assert spec.train.loss.smoothing.epsilon == 0.1
        assert spec.train.loss.class_weight == EffectiveWeight(beta=0.9999)
        assert spec.train.loss.hardmine.keep == 0.5
        assert spec.posthoc.calibration.kind == "temperature"


class TestRunKey:
    def test_a_key_is_what_it_was(self):
        """A change here renames all existing runs: increase the spec_version of the changed spec instead."""
        assert run_key(parse(RunSpec, preset("full")), "table", "split", 1) == "859258631e6a5456"

    def test_every_part_counts(self):
        spec = RunSpec()
        keys = {
            run_key(spec, "table", "split", 1),
            run_key(RunSpec(seed=1), "table", "split", 1),
            run_key(spec, "other", "split", 1),
            run_key(spec, "table", "other", 1),
            run_key(spec, "table", "split", 2),
        }
        assert len(keys) == 5

    def test_an_option_at_its_default_does_not_count(self):
        written = RunSpec.model_validate({"train": {"optim": {"kind": "adamw", "lr": 0.003}}, "seed": 0})
        assert run_key(written, "t", "s", 1) == run_key(RunSpec(), "t", "s", 1)


def test_a_complete_message_of_a_rule_is_left_as_it_is():
    with pytest.raises(SettingsError) as error:
        parse(SplitSpec, {"folds": 5, "select": 0.2})
    message = str(error.value)
    assert message.count("{'select': 0.2}") == 1
    assert message.endswith(".\nSee `frostbench options`.")


def aliases(levels: int, width: int = 9) -> str:
    """A short text whose last value expands to width ** levels values."""
    lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (aliases(9), "at most 200000 values, counting each repetition by an alias"),
        (aliases(200, 1), "at most 100 deep"),
        ("a: &a [*a]", "may not contain themselves"),
        ("[" * 5000, "at most 100 deep"),
        ("[" * 150 + "]" * 150, "at most 100 deep"),
        ("a: 2024-13-45", "month must be in 1..12"),
        (f"a: {'9' * 5000}", "digits"),
        ("? [1, 2]\n: 3", "unhashable key"),
        ("1: a\ntrue: b", "duplicate key"),
    ],
)
def test_a_text_that_is_hard_to_read_is_refused(tmp_path, text, told):
    path = tmp_path / "prior.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=f"(?s)must be YAML, but {path} is not .*{told}"):
        load_yaml(path)


def test_aliases_that_stay_small_are_read(tmp_path):
    assert read_yaml("base: &base {a: 1}\nrows: [*base, *base]") == {"base": {"a": 1}, "rows": [{"a": 1}, {"a": 1}]}
    assert read_yaml("") is None
    assert read_yaml("[" * 90 + "]" * 90)
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(SettingsError, match=r"at most 4194304 bytes, but .* has 1073741824"):
        load_yaml(path)
