"""Checks of every option of every spec."""

import importlib
import pkgutil
from typing import get_args

import pytest
from pydantic import BaseModel

from frostbench import embedcache, heads, training
from frostbench.benchmarks.settings.options import bound, options, options_markdown
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads.posthoc.decisions.rule import DecisionRule
from frostbench.heads.spec import Spec
from frostbench.heads.walk import walk
from frostbench.training.run import RunSpec

ROOTS = {"run": RunSpec, "bench": BenchSpec}
OPTIONS = [(root, option) for root, spec in ROOTS.items() for option in options(spec)]
LOWER = ("kNN", "τ")
"""Beginnings of titles that need no capital letter."""
FORBIDDEN_CHOICES = {"on", "off", "yes", "no", "true", "false"}


def reachable(spec_type: type[BaseModel]) -> set[type[BaseModel]]:
    return {spec_type, *(branch for node in walk(spec_type) for branch in node.branches)}


def specs_in(package) -> set[type[Spec]]:
    found = set()
    for module_info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(module_info.name)
        found |= {
            v
            for v in vars(module).values()
            if isinstance(v, type) and issubclass(v, Spec) and v is not Spec and v.__module__ == module.__name__
        }
    return found


@pytest.mark.parametrize(("root", "option"), OPTIONS, ids=[f"{r}:{o.path}" for r, o in OPTIONS])
def test_every_option_has_a_sentence_and_a_bound_or_choice(root, option):
    assert option.sentence.endswith(".")
    assert option.sentence[0].isupper()
    assert len(option.sentence) < 200
    assert option.bound


@pytest.mark.parametrize(
    "spec_type", sorted(reachable(RunSpec) | reachable(BenchSpec), key=lambda s: s.__name__), ids=lambda s: s.__name__
)
def test_every_field_has_a_title(spec_type):
    titles = {name: field.title or "" for name, field in spec_type.model_fields.items() if name != "kind"}
    assert [name for name, title in titles.items() if not title or title.endswith(".") or len(title) > 45] == []
    assert [title for title in titles.values() if title[0].islower() and not title.startswith(LOWER)] == []


@pytest.mark.parametrize(("root", "option"), OPTIONS, ids=[f"{r}:{o.path}" for r, o in OPTIONS])
def test_no_choice_is_a_word_that_yaml_reads_as_a_boolean(root, option):
    assert not FORBIDDEN_CHOICES & {str(choice).lower() for choice in get_args(option.field.annotation)}


@pytest.mark.parametrize("spec_type", sorted(reachable(RunSpec), key=lambda s: s.__name__))
def test_every_spec_has_defaults_that_validate_a_docstring_a_tier_and_a_version(spec_type):
    assert spec_type.model_validate({}) == spec_type()
    assert (spec_type.__doc__ or "").strip().split("\n")[0].endswith(".")
    assert spec_type.tier in ("core", "experimental")
    assert spec_type.spec_version >= 1
    config = spec_type.model_config
    assert (config["frozen"], config["extra"], config["validate_default"]) == (True, "forbid", True)


@pytest.mark.parametrize("package", [heads, training])
def test_no_spec_is_missing_from_the_catalogue(package):
    """A Spec is an option, or a base class of several options."""
    # The rule of a decision is no option of a run: it is chosen afterwards and kept in a bundle.
    listed = {*reachable(RunSpec), *reachable(DecisionRule)}
    assert specs_in(package) - {base for spec in listed for base in spec.__mro__} == set()


def test_embedcache_settings_have_the_same_configuration():
    from frostbench.embedcache.splits.making import SplitSpec

    assert SplitSpec.model_config["extra"] == "forbid"
    assert SplitSpec.model_config["frozen"] is True
    assert embedcache.__name__ == "frostbench.embedcache"


def test_bounds_read_as_words():
    found = {o.path: o.bound for o in options(RunSpec)}
    assert found["train.loss.smoothing.epsilon"] == ">= 0, < 1"
    assert found["head.body.kind"] == "identity, mlp, attention_pool"
    assert found["head.preprocess.center"] == "true, false"
    assert found["head.body<mlp>.hidden"] == "at least 1, at most 8 of them, each >= 1, <= 16384"


def test_a_field_without_bound_or_choice_would_be_noticed():
    class Loose(Spec):
        free: float = 1.0

    assert bound(Loose.model_fields["free"]) == ""


def test_a_new_option_shows_up_by_itself():
    class Mine(Spec):
        rate: float = 0.5
        """How fast."""

    assert "| Rate | `rate` | 0.5 |  | How fast. |" in options_markdown({"mine": Mine})
