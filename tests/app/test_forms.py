"""Every spec can be converted to a form and back."""

import inspect
from typing import Annotated, Literal

import pytest
from pydantic import Field

from frostbench.app.forms import spec_of, tree_of, values_of
from frostbench.app.rows import Row, other_values, rows_of
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.heads.head import HeadSpec
from frostbench.heads.spec import Spec
from frostbench.training.run import RunSpec

SPECS = [RunSpec, SplitSpec, BenchSpec, HeadSpec]


def moved(row: Row, value):
    """Return another value of a row, as a user could set it."""
    if row.control == "numbers":
        return "5, 4"
    if row.control == "names":
        return ["b", "a"]
    if row.control == "line":
        return "0" * 64 if row.path.endswith("sha256") else "other"
    if row.control == "text":
        shaped = {
            "grid": "{a: [1]}",
            "tune": "{a: {b: [1]}}",
            "ensembles": "{a: [b, c]}",
            "labels.merge": "{a: [b, c]}",
            "train.loss.logit_adjustment.given": "{a: 1.0, b: 2.5}",
            "posthoc.deploy_prior": "{a: 1.0, b: 2.5}",
            "posthoc.shift<given>.logits": "{a: 1.0}",
            "posthoc.shift<wanted>.targets": "{a: 0.5}",
        }
        return shaped.get(row.key) or {"{}": "{a: {b: 1}}"}.get(value, "other")
    return other_values(row, value)[0]


GOES_WITH = {
    ("<cosine>.init", "weights"): {"<cosine>.file": "weights.npz"},
    ("<cosine>.file", "other"): {"<cosine>.init": "weights"},
    ("<mahalanobis>.alpha2", None): {"<mahalanobis>.alpha1": 100},
}
"""Options that must be set along with a value, by the end of the key; None matches any value."""


def with_what_it_needs(row: Row, value, values):
    """Return control values with one value set, and everything that it requires."""
    found = dict(values) | dict(row.needs) | {row.key: value}
    for (end, wanted), others in GOES_WITH.items():
        if row.key.endswith(end) and wanted in (None, value):
            found |= {row.key.removesuffix(end) + other: needed for other, needed in others.items()}
    return found


def every_form(spec_type):
    """Yield for each row control values that set it to another value."""
    rows = rows_of(spec_type)
    start = values_of(rows, spec_type())
    for row in rows:
        yield row, with_what_it_needs(row, moved(row, start[row.key]), start)


FORMS = [(spec, row, values) for spec in SPECS for row, values in every_form(spec)]


@pytest.mark.parametrize(("spec_type", "row", "values"), FORMS, ids=[f"{s.__name__}:{r.key}" for s, r, _ in FORMS])
def test_a_spec_survives_the_form(spec_type, row, values):
    rows = rows_of(spec_type)
    spec = spec_of(spec_type, rows, values)
    assert spec != spec_type()
    again = values_of(rows, spec)
    assert {r.key: again[r.key] for r in rows if r.is_active(again)} == {
        r.key: values[r.key] for r in rows if r.is_active(values)
    }
    assert spec_of(spec_type, rows, again) == spec


@pytest.mark.parametrize("spec_type", SPECS)
def test_the_defaults_survive_the_form_and_every_row_has_a_sentence(spec_type):
    rows = rows_of(spec_type)
    assert spec_of(spec_type, rows, values_of(rows, spec_type())) == spec_type()
    assert all(row.sentence.endswith(".") for row in rows)


@pytest.mark.parametrize("spec_type", SPECS)
def test_rows_that_can_be_seen_together_have_different_labels(spec_type):
    rows = rows_of(spec_type)
    same = [(a, b) for n, a in enumerate(rows) for b in rows[:n] if a.label == b.label]
    # Rows with the same label must need different kinds of one choice.
    assert [(a.key, b.key) for a, b in same if all(dict(a.needs).get(key, kind) == kind for key, kind in b.needs)] == []


def test_equal_titles_get_the_name_of_their_part():
    class Layer(Spec):
        """A part that stands twice."""

        kind: Literal["wide"] = "wide"
        width: int = Field(default=8, ge=1, title="Width")
        """How wide."""

    class Both(Spec):
        """Two parts."""

        first: Layer = Field(default=Layer(), title="First layer")
        last: Layer = Layer()

    assert [row.label for row in rows_of(Both)] == ["First layer · Width", "Last · Width"]


def test_a_new_option_appears_without_an_edit():
    class Slow(Spec):
        """A kind with a number."""

        kind: Literal["slow"] = "slow"
        pace: float = Field(default=0.5, ge=0, le=1)
        """How slow."""

    class Quick(Spec):
        """A kind without options."""

        tier = "experimental"
        kind: Literal["quick"] = "quick"
        bold: bool = True
        """Whether it is bold."""

    class Whole(Spec):
        """Two kinds."""

        motion: Annotated[Slow | Quick, Field(discriminator="kind")] = Slow()
        """How it moves."""
        names: tuple[str, ...] = ()
        """What is named."""

    rows = {row.key: row for row in rows_of(Whole)}
    assert list(rows) == ["motion.kind", "motion<slow>.pace", "motion<quick>.bold", "names"]
    assert rows["motion.kind"].choices == ("slow", "quick")
    assert (rows["motion<slow>.pace"].low, rows["motion<slow>.pace"].high) == (0, 1)
    assert rows["motion<quick>.bold"].tier == "experimental"
    assert rows["motion.kind"].experimental == ("quick",)
    assert [rows[key].control for key in rows] == ["choice", "number", "flag", "names"]
    values = values_of(tuple(rows.values()), Whole()) | {"motion.kind": "quick", "motion<quick>.bold": False}
    assert spec_of(Whole, tuple(rows.values()), values) == Whole(motion=Quick(bold=False))


def test_values_of_unselected_kinds_are_kept_but_not_used():
    rows = rows_of(HeadSpec)
    values = values_of(rows, HeadSpec()) | {"body<mlp>.dropout": 0.4}
    assert "dropout" not in str(tree_of(rows, values))
    assert spec_of(HeadSpec, rows, values | {"body.kind": "mlp"}).body.dropout == 0.4


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "train.schedule.epochs",
            0,
            "Epochs (train.schedule.epochs): Input should be greater than or equal to 1, got 0.",
        ),
        (
            "train.schedule.epochs",
            None,
            "Epochs (train.schedule.epochs): Input should be a valid integer, got N",
        ),
        ("head.body<mlp>.hidden", "wide", "hidden layers (head.body.hidden.0): Input should be a valid integer"),
        (
            "head.body<mlp>.hidden",
            "1, {",
            "hidden layers (head.body.hidden): value must be YAML, got '1, {'",
        ),
    ],
)
def test_errors_name_the_option(key, value, message):
    rows = rows_of(RunSpec)
    values = values_of(rows, RunSpec()) | {"head.body.kind": "mlp", key: value}
    with pytest.raises(SettingsError) as caught:
        spec_of(RunSpec, rows, values)
    assert message in str(caught.value)


def test_numbers_are_separated_by_commas():
    rows = rows_of(RunSpec)
    values = values_of(rows, RunSpec()) | {"head.body.kind": "mlp"}
    assert values["head.body<mlp>.hidden"] == "768, 384"
    for text in ("64", "[64]", " 64 "):
        assert spec_of(RunSpec, rows, values | {"head.body<mlp>.hidden": text}).head.body.hidden == (64,)


@pytest.mark.parametrize(
    "row", [row for row in rows_of(RunSpec) if row.control in ("choice", "flag", "number")], ids=lambda r: r.key
)
def test_other_values_are_valid_and_different(row):
    found = other_values(row, row.default)
    assert found
    assert row.default not in found
    rows = rows_of(RunSpec)
    start = values_of(rows, RunSpec())
    for value in found:
        spec_of(RunSpec, rows, with_what_it_needs(row, value, start))


def test_the_form_names_no_option():
    from frostbench.app import forms, rows

    paths = {part for row in rows_of(RunSpec) for part in row.path.split(".")} - {
        "kind",
        "head",
        "columns",
        "c",
        "where",
    }
    code = "".join(inspect.getsource(module).split('"""', 2)[2] for module in (forms, rows))
    assert [path for path in sorted(paths) if f'"{path}"' in code] == []


def test_optional_numbers_may_be_empty():
    rows = {row.key: row for row in rows_of(RunSpec)}
    scale = rows["head.classifier<cosine>.scale"]
    assert (scale.control, scale.optional, scale.default, scale.low, scale.high) == ("number", True, None, 1, 200)
    assert (rows["order_seed"].whole, rows["train.ema"].optional) == (True, False)
    values = values_of(tuple(rows.values()), RunSpec()) | {"head.classifier.kind": "cosine", scale.key: 30}
    assert spec_of(RunSpec, tuple(rows.values()), values).head.classifier.scale == 30
    assert spec_of(RunSpec, tuple(rows.values()), values | {scale.key: None}).head.classifier.scale is None


def test_a_union_within_a_kind_has_its_own_kinds():
    rows = rows_of(RunSpec)
    values = values_of(rows, RunSpec()) | {
        "second.kind": "refit",
        "second<refit>.classifier.kind": "knn",
        "second<refit>.classifier<knn>.k": 7,
        "head.classifier<knn>.k": 9,
    }
    second = spec_of(RunSpec, rows, values).second
    assert (second.classifier.kind, second.classifier.k) == ("knn", 7)
    labels = {row.key: row.label for row in rows}
    assert labels["head.classifier<knn>.k"] == "kNN: neighbours k"
    assert labels["second<refit>.classifier<knn>.k"] == "Second stage · kNN: neighbours k"


def test_a_file_name_is_not_parsed_as_yaml():
    rows = rows_of(RunSpec)
    values = values_of(rows, RunSpec()) | {
        "head.classifier.kind": "zero_shot",
        "head.classifier<zero_shot>.file": "a: [b].npz",
    }
    assert spec_of(RunSpec, rows, values).head.classifier.file == "a: [b].npz"


def test_all_below_an_experimental_spec_is_experimental():
    tiers = {row.key: row.tier for row in rows_of(RunSpec)}
    assert tiers["train.loss.bcl.projector<mlp>.hidden"] == "experimental"
    assert tiers["second<refit>.classifier<knn>.k"] == "experimental"
    assert tiers["train.loss.supcon.projector<mlp>.hidden"] == "core"
    assert tiers["head.classifier<knn>.k"] == "core"


@pytest.mark.parametrize("spec_type", [RunSpec, SplitSpec])
def test_every_optional_number_explains_what_empty_means(spec_type):
    found = {row.path: row.empty for row in rows_of(spec_type) if row.optional}
    assert found
    assert all(found.values())


def test_an_empty_number_says_what_it_means():
    meanings = {row.key: row.empty for row in (*rows_of(RunSpec), *rows_of(SplitSpec)) if row.optional}
    assert meanings["duplicates"] == "ignored"
    assert meanings["train.sampler<shuffled>.buffer_rows"] == "all rows"
    assert "automatic" not in meanings.values()


def aliased(levels):
    """Return a short YAML text whose aliases expand tenfold per level."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("text", ["[" * 5000, "[" * 102 + "]" * 102, "{a: " * 5000 + "}" * 5000, aliased(9)])
@pytest.mark.parametrize("key", ["posthoc.deploy_prior", "head.body<mlp>.hidden"])
def test_deep_and_aliased_texts_are_refused(key, text):
    rows = rows_of(RunSpec)
    # The form adds the brackets around a list of numbers.
    text = text.replace("[[", "[1, [") if key.endswith("hidden") else text
    values = values_of(rows, RunSpec()) | {"head.body.kind": "mlp", key: text}
    with pytest.raises(SettingsError, match="value must be YAML, got ") as error:
        spec_of(RunSpec, rows, values)
    assert len(str(error.value)) < 700


@pytest.mark.parametrize("levels", [101, 3000])
def test_deep_values_of_every_control_are_refused(levels):
    rows = rows_of(RunSpec)
    deep = 1
    for _ in range(levels):
        deep = [deep]
    values = values_of(rows, RunSpec())
    for row in rows:
        if row.is_active(values):
            with pytest.raises(SettingsError, match="value may be nested at most 100 levels deep") as error:
                spec_of(RunSpec, rows, values | {row.key: deep})
            assert str(error.value).startswith(f"{row.label} ({row.path}): ")
