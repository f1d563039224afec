from typing import Literal

import pytest
from pydantic import ValidationError

from frostbench.heads.spec import Spec, canonical


class Leaf(Spec):
    kind: Literal["leaf"] = "leaf"
    rate: float = 0.5


class Tree(Spec):
    leaf: Leaf = Leaf()
    many: tuple[Leaf, ...] = ()
    name: str = "a"


def test_default_fields_are_omitted_and_the_order_of_keys_does_not_matter():
    assert canonical(Tree()) == {}
    assert canonical(Tree.model_validate({"name": "b", "leaf": {"rate": 1}})) == {
        "leaf": {"kind": "leaf", "rate": 1.0},
        "name": "b",
    }


def test_kind_is_always_kept_in_lists():
    assert canonical(Tree(many=(Leaf(),))) == {"many": [{"kind": "leaf"}]}


def test_a_raised_version_is_kept_even_at_defaults(monkeypatch):
    monkeypatch.setattr(Leaf, "spec_version", 2)
    assert canonical(Tree()) == {"leaf": {"kind": "leaf", "spec_version": 2}}


@pytest.mark.parametrize("tree", [{"nmae": "b"}, {"leaf": {"rate": float("nan")}}, {"leaf": {"kind": "other"}}])
def test_unknown_fields_nan_and_wrong_kinds_are_rejected(tree):
    with pytest.raises(ValidationError):
        Tree.model_validate(tree)


def test_specs_cannot_be_changed():
    with pytest.raises(ValidationError):
        Tree().name = "c"
