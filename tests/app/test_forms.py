"""Every spec goes through the form and back, whatever its options are called."""

import inspect
from typing import Annotated, Literal

import pytest
from pydantic import Field

from app.forms import Row, other_values, rows_of, spec_of, tree_of, values_of
from benchmarks.plan import BenchSpec
from benchmarks.settings import SettingsError
from embedcache.splits import SplitSpec
from heads.head import HeadSpec
from heads.spec import Spec
from training.run import RunSpec

SPECS = [RunSpec, SplitSpec, BenchSpec, HeadSpec]


def moved(row: Row, value):
    """Another value of a row, as a person could set it."""
    if row.control == "numbers":
        return "5, 4"
    if row.control == "names":
        return ["b", "a"]
    if row.control == "text":
        return "{a: [1]}" if row.key == "grid" else {"{}": "{a: {b: 1}}"}.get(value, "other")
    return other_values(row, value)[0]


def every_form(spec_type):
    """Control values with each kind chosen once and, for each row, one other value of it."""
    rows = rows_of(spec_type)
    start = values_of(rows, spec_type())
    for row in rows:
        values = dict(start)
        for key, kind in row.needs:
            values[key] = kind
        yield row, values | {row.key: moved(row, values[row.key])}


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
def test_the_defaults_survive_the_form_and_labels_are_unique(spec_type):
    rows = rows_of(spec_type)
    assert spec_of(spec_type, rows, values_of(rows, spec_type())) == spec_type()
    labels = [row.label for row in rows]
    assert len(set(labels)) == len(labels)
    assert all(row.sentence.endswith(".") for row in rows)


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
    assert [rows[key].control for key in rows] == ["choice", "number", "flag", "names"]
    values = values_of(tuple(rows.values()), Whole()) | {"motion.kind": "quick", "motion<quick>.bold": False}
    assert spec_of(Whole, tuple(rows.values()), values) == Whole(motion=Quick(bold=False))


def test_values_of_another_kind_wait_but_do_not_count():
    rows = rows_of(HeadSpec)
    values = values_of(rows, HeadSpec()) | {"body<mlp>.dropout": 0.4}
    assert "dropout" not in str(tree_of(rows, values))
    assert spec_of(HeadSpec, rows, values | {"body.kind": "mlp"}).body.dropout == 0.4


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "train.schedule.epochs",
            0,
            "train.schedule.epochs: Input should be greater than or equal to 1, however: 0 came",
        ),
        ("train.schedule.epochs", None, "train.schedule.epochs: Input should be a valid integer, however: None came"),
        ("head.body<mlp>.hidden", "wide", "head.body.hidden.0: Input should be a valid integer"),
        ("head.body<mlp>.hidden", "1, {", "head.body.hidden: a value is written as YAML, however: '1, {' came"),
    ],
)
def test_what_is_not_allowed_is_told_by_its_option(key, value, told):
    rows = rows_of(RunSpec)
    values = values_of(rows, RunSpec()) | {"head.body.kind": "mlp", key: value}
    with pytest.raises(SettingsError) as caught:
        spec_of(RunSpec, rows, values)
    assert told in str(caught.value)


def test_numbers_are_written_with_commas():
    rows = rows_of(RunSpec)
    values = values_of(rows, RunSpec()) | {"head.body.kind": "mlp"}
    assert values["head.body<mlp>.hidden"] == "768, 384"
    for text in ("64", "[64]", " 64 "):
        assert spec_of(RunSpec, rows, values | {"head.body<mlp>.hidden": text}).head.body.hidden == (64,)


@pytest.mark.parametrize(
    "row", [row for row in rows_of(RunSpec) if row.control in ("choice", "flag", "number")], ids=lambda r: r.key
)
def test_other_values_are_allowed_and_other(row):
    found = other_values(row, row.default)
    assert found
    assert row.default not in found
    for value in found:
        values = values_of(rows_of(RunSpec), RunSpec())
        for key, kind in row.needs:
            values[key] = kind
        spec_of(RunSpec, rows_of(RunSpec), values | {row.key: value})


def test_the_form_names_no_option():
    from app import forms

    source = inspect.getsource(forms)
    paths = {part for row in rows_of(RunSpec) for part in row.path.split(".")} - {
        "kind",
        "head",
        "columns",
        "c",
        "where",
    }
    code = source.split('"""', 2)[2]
    assert [path for path in sorted(paths) if f'"{path}"' in code] == []
