import pytest

from frostbench.benchmarks.settings.parsing import SettingsError, load_yaml, parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.heads.bodies.body import Identity, Mlp


def bench(**fields):
    return BenchSpec(**({"preset": "baseline", "seeds": (0, 1)} | fields))


def test_the_first_row_is_the_base_and_each_row_has_every_seed():
    rows = expand(bench(toggles={"no weights": {"train.loss.class_weight.kind": "none"}}))
    assert [row.name for row in rows] == ["baseline", "no weights"]
    assert [spec.seed for spec in rows[1].specs] == [0, 1]
    assert rows[0].specs[0].train.loss.class_weight.kind == "effective"
    assert rows[1].specs[0].train.loss.class_weight.kind == "none"
    assert rows[1].specs[0].train.loss.smoothing.epsilon == 0.1


def test_a_toggle_is_a_set_of_changes_dotted_or_nested():
    dotted = {"train.loss.class_weight.kind": "none", "train.loss.logit_adjustment.tau": 1}
    nested = {"train": {"loss": {"class_weight": {"kind": "none"}, "logit_adjustment": {"tau": 1}}}}
    first, second = (expand(bench(toggles={"adjusted": changes}))[1].specs[0] for changes in (dotted, nested))
    assert first == second
    assert first.train.loss.logit_adjustment.tau == 1


def test_the_base_holds_over_another_preset_and_the_toggle_over_both():
    shared = {"train.schedule.epochs": 7, "train.optim.lr": 0.5}
    toggles = {"full": {"preset": "full"}, "slow": {"preset": "full", "train.optim.lr": 0.25}}
    base, full, slow = expand(bench(base=shared, toggles=toggles))
    assert isinstance(base.specs[0].head.body, Identity)
    assert isinstance(full.specs[0].head.body, Mlp)
    assert [row.specs[0].train.schedule.epochs for row in (base, full, slow)] == [7, 7, 7]
    assert [row.specs[0].train.optim.lr for row in (base, full, slow)] == [0.5, 0.5, 0.25]
    assert [spec.seed for spec in full.specs] == [0, 1]


def test_a_background_may_stand_in_the_base_or_in_a_toggle_of_a_bench_without_one():
    rows = expand(bench(base={"background": ["sky"]}, toggles={"none": {"background": []}}))
    assert [row.specs[0].background for row in rows] == [("sky",), ()]


def test_naming_the_present_kind_keeps_its_other_options():
    changes = {"head.body.kind": "mlp", "head.body.block_order": "gelu_ln"}
    rows = expand(bench(preset="full", base={"head.body.hidden": [64]}, toggles={"order": changes}))
    assert rows[1].specs[0].head.body.hidden == (64,)


def test_a_grid_is_every_combination_but_the_base():
    grid = {"train.optim.lr": (0.003, 0.01), "head.body.dropout": (0.2, 0.5)}
    names = [row.name for row in expand(bench(preset="full", grid=grid))]
    assert names == ["full", "lr=0.003, dropout=0.5", "lr=0.01, dropout=0.2", "lr=0.01, dropout=0.5"]


def test_options_of_a_grid_with_one_last_name_are_named_in_full():
    grid = {"train.loss.logit_adjustment.tau": (1,), "posthoc.adjustment.tau": (0.5,)}
    assert expand(bench(grid=grid))[1].name == "train.loss.logit_adjustment.tau=1, posthoc.adjustment.tau=0.5"


def test_background_classes_hold_for_every_row():
    rows = expand(bench(background=("sky",), toggles={"full": {"preset": "full"}}))
    assert [row.specs[0].background for row in rows] == [("sky",), ("sky",)]


def test_warnings_of_a_row_are_told():
    row = expand(bench(toggles={"adjusted": {"posthoc.adjustment.tau": 1}}))[1]
    assert len(row.warnings) == 1
    assert "label smoothing bounds the logit gaps" in row.warnings[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"toggles": {"same": {"train.loss.smoothing.epsilon": 0.1}}}, "same options as 'baseline'"),
        (
            {"toggles": {"seed only": {"seed": 5}}},
            "Seeds must be the same for all rows, but toggle 'seed only' sets seed=5",
        ),
        ({"base": {"seed": 5}}, "but base sets seed=5"),
        ({"grid": {"seed": (5, 6)}}, "but grid sets seed"),
        (
            {"background": ("sky",), "toggles": {"a": {"background": []}}},
            "must be set once, but toggle 'a' and the bench",
        ),
        ({"background": ("sky",), "base": {"background": ["sea"]}}, "must be set once, but base and the bench"),
        ({"caches": ("a", "b", "./a")}, "caches must differ, got .* './a'"),
        ({"toggles": {"a": {"train.optim.lr": 0.1}, "b": {"train": {"optim": {"lr": 0.1}}}}}, "same options as 'a'"),
        ({"toggles": {"baseline": {"train.optim.lr": 0.1}}}, "two rows are called 'baseline'"),
        ({"toggles": {"typo": {"train.optim.lrr": 0.1}}}, "row 'typo': .*Did you mean train.optim"),
        ({"toggles": {"preset": {"preset": "fulll"}}}, "'fulll' is not one of the presets: .*Did you mean full"),
        ({"toggles": {"preset": {"preset": 3}}}, "`preset` must be a name such as full, got 3"),
        (
            {"grid": {"train.optim.lr": ()}},
            r"Each option of a grid needs values, but Learning rate \(train.optim.lr\) has none",
        ),
        ({"seeds": (1, 1)}, "seeds must differ"),
    ],
)
def test_impossible_benches_are_refused_in_words(fields, words):
    with pytest.raises(SettingsError, match=f"(?s){words}"):
        expand(bench(**fields))


def test_options_that_do_not_go_together_name_their_row():
    toggles = {"solved mlp": {"head.classifier.kind": "logreg", "head.body.kind": "mlp"}}
    with pytest.raises(ValueError, match="row 'solved mlp': Incompatible options"):
        expand(bench(toggles=toggles))


def test_the_demo_bench_expands():
    from importlib import resources

    spec = parse(BenchSpec, load_yaml(resources.files("frostbench.configs") / "benches" / "demo.yaml"))
    rows = expand(spec)
    assert rows[0].name == "baseline"
    assert len(rows) >= 6
    assert {"plain", "full"} <= {row.name for row in rows}
    assert all(len(row.specs) == 3 and not row.warnings for row in rows)
