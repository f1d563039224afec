"""The walk over trees of specs."""

from typing import Annotated, Literal

from pydantic import Field

from frostbench.heads.spec import Spec
from frostbench.heads.walk import kind_of, plain_path, walk
from frostbench.training.run import RunSpec


class Slow(Spec):
    kind: Literal["slow"] = "slow"
    pace: float = 0.5


class Quick(Spec):
    kind: Literal["quick"] = "quick"
    pace: float = 2.0


class Walker(Spec):
    motion: Annotated[Slow | Quick, Field(discriminator="kind")] = Slow()
    trips: tuple[Quick, ...] = ()


def test_a_class_is_walked_through_every_branch():
    nodes = {node.path: node for node in walk(Walker)}
    assert list(nodes) == [
        "motion",
        "motion<slow>.kind",
        "motion<slow>.pace",
        "motion<quick>.kind",
        "motion<quick>.pace",
        "trips",
        "trips.kind",
        "trips.pace",
    ]
    assert nodes["motion"].kinds == ("slow", "quick")
    assert nodes["motion<quick>.pace"].owner is Quick
    assert {node.value for node in nodes.values()} == {None}


def test_an_instance_is_walked_through_the_specs_it_holds():
    values = {node.path: node.value for node in walk(Walker(motion=Quick(pace=3)))}
    assert values == {"motion": Quick(pace=3), "motion<quick>.kind": "quick", "motion<quick>.pace": 3.0, "trips": ()}


def test_every_path_of_a_run_is_one_of_its_class():
    known = {node.path: node.owner for node in walk(RunSpec)}
    assert all(known[node.path] is node.owner for node in walk(RunSpec()))


def test_kinds_and_plain_paths():
    assert [kind_of(spec) for spec in (Slow, Quick(), Walker)] == ["slow", "quick", None]
    assert plain_path("motion<quick>.pace") == "motion.pace"
