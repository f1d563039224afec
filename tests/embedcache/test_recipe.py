import hashlib
import json

import pytest
import torch
from pydantic import ValidationError

from frostbench.embedcache.recipe import Recipe, differences, provenance, unknown_fields

RESOLVED = {
    "provider": "timm",
    "model": "resnet18",
    "weights_sha256": "0" * 64,
    "size": 224,
    "resize": 256,
    "crop": "center",
    "crop_fraction": 0.875,
    "interpolation": "bicubic",
    "antialias": True,
    "resizer": "pillow",
    "decoder": "pillow",
    "alpha_background": (255, 255, 255),
    "mean": (0.5, 0.5, 0.5),
    "std": (0.5, 0.5, 0.5),
    "autocast": "float32",
    "pooling": "avg",
    "normalised": False,
}
OTHER = {
    "provider": "external",
    "model": "resnet34",
    "weights_sha256": "1" * 64,
    "size": 256,
    "resize": 257,
    "crop": "squash",
    "crop_fraction": 1.0,
    "interpolation": "bilinear",
    "antialias": False,
    "alpha_background": (0, 0, 0),
    "mean": (0.4, 0.5, 0.5),
    "std": (0.4, 0.5, 0.5),
    "autocast": "bfloat16",
    "intensity_range": (0.0, 4095.0),
    "pooling": "cls",
    "normalised": True,
}


def test_the_hash_is_pinned() -> None:
    # Different hashes would orphan all existing caches. If the numbers changed, raise `version` instead.
    assert Recipe(**RESOLVED).hash == "b1a9f5b1fb77"


def test_the_hash_is_of_all_fields_as_sorted_json() -> None:
    tree = RESOLVED | {"version": 1, "storage": "float16", "view": "original", "reduction": "none"}
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    assert Recipe(**RESOLVED).hash == hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.mark.parametrize("field", OTHER)
def test_every_field_changes_the_hash(field: str) -> None:
    base, changed = Recipe(**RESOLVED), Recipe(**RESOLVED | {field: OTHER[field]})
    assert changed.hash != base.hash
    assert differences(base, changed) == {field: (getattr(base, field), getattr(changed, field))}


def test_equal_recipes_do_not_differ_and_survive_json() -> None:
    recipe = Recipe(**RESOLVED)
    assert differences(recipe, Recipe(**RESOLVED)) == {}
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


@pytest.mark.parametrize("field", sorted(RESOLVED.keys() - {"provider", "model"}))
def test_only_external_recipes_may_leave_fields_open(field: str) -> None:
    rest = {name: value for name, value in RESOLVED.items() if name != field}
    with pytest.raises(ValidationError, match=f"must state every field, but lacks {field}"):
        Recipe(**rest)
    assert unknown_fields(Recipe(**rest | {"provider": "external"})) == [field]


@pytest.mark.parametrize(
    "wrong", [{"weights_sha256": "xyz"}, {"size": 0}, {"alpha_background": (0, 0, 256)}, {"new": 1}]
)
def test_wrong_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Recipe(**RESOLVED | wrong)


def test_every_field_has_a_sentence() -> None:
    for name, field in Recipe.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_provenance_names_versions_and_device() -> None:
    found = provenance(torch.device("cpu"))
    assert found["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert found["device"].startswith("cpu")


def test_fields_of_later_are_left_out_where_they_say_nothing() -> None:
    # Written by the first release: bundled efficientnet_lite0 in float32.
    first = RESOLVED | {
        "provider": "bundled",
        "model": "efficientnet_lite0",
        "weights_sha256": "5b46fdde46af690f9990d6e572cc746bf639951c0fe13ac83b0c3398cb1b2bd0",
    }
    assert Recipe(**first).hash == "dcc06520de9f"
    assert not {"tag", "layer", "final_norm", "gem_p", "output", "prefix_tokens", "rope_periods"} & set(
        Recipe(**first).model_dump()
    )


LATER = {
    "tag": "openai",
    "layer": -4,
    "final_norm": True,
    "gem_p": 3.0,
    "output": "embedding",
    "prefix_tokens": 0,
    "rope_periods": "float32",
    "view": "flip",
}


@pytest.mark.parametrize("field", LATER)
def test_fields_of_later_change_the_hash_and_survive_json(field: str) -> None:
    base, changed = Recipe(**RESOLVED), Recipe(**RESOLVED | {field: LATER[field]})
    assert changed.hash != base.hash
    assert differences(base, changed) == {field: (getattr(base, field), LATER[field])}
    assert Recipe.model_validate_json(changed.model_dump_json()) == changed
    assert unknown_fields(changed) == []


@pytest.mark.parametrize("wrong", [{"layer": -1}, {"layer": 3}, {"gem_p": 0.5}, {"provider": "torchvision"}])
def test_wrong_values_of_later_fields_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Recipe(**RESOLVED | wrong)


def test_provenance_names_a_providers_own_libraries() -> None:
    found = provenance(torch.device("cpu"), ("transformers", "no-such-library"))
    assert found["transformers"][0].isdigit()
    assert found["no-such-library"] == "not installed"
