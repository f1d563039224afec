import hashlib

import numpy as np
import pytest
import torch

from frostbench.heads.closed_form.zero_shot import ZeroShot
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.text_weights import text_weights

NAMES = ("cat", "owl")


def rows_of(names=NAMES, width=2):
    return Rows(torch.randn(2, width), torch.tensor([0, 1]), torch.ones(2, dtype=torch.float64), 2, names)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.npz"
    np.savez(path, weights=np.array([[0.0, 2], [3, 0], [1, 1]]), class_names=np.array(["owl", "cat", "dog"]))
    return path


def test_weights_are_found_by_name(file):
    found = text_weights(str(file), "", NAMES)
    assert found.tolist() == [[3, 0], [0, 2]]
    assert found.dtype == torch.float32


def test_logits_are_a_hundred_times_the_cosine(file):
    layer = ZeroShot(file=str(file)).fit(rows_of())
    assert layer(torch.tensor([[6.0, 8]]))[0].tolist() == pytest.approx([60, 80], abs=1e-4)


def test_the_spec_notes_the_hash_of_the_file(file):
    spec = ZeroShot(file=str(file))
    assert spec.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert ZeroShot.model_validate_json(spec.model_dump_json()) == spec
    assert ZeroShot(file=str(file.with_name("none.npz"))).sha256 == ""


def test_a_file_that_changed_is_rejected(file):
    spec = ZeroShot(file=str(file))
    np.savez(file, weights=np.eye(2), class_names=np.array(NAMES))
    with pytest.raises(ValueError, match=f"must have the SHA-256 {spec.sha256}, but has"):
        spec.fit(rows_of())
    assert ZeroShot.model_validate(spec.model_dump()) == spec


def test_a_missing_file_is_rejected(tmp_path):
    spec = ZeroShot(file=str(tmp_path / "none.npz"))
    with pytest.raises(ValueError, match=r"need an .npz file, but .*none.npz' does not exist"):
        spec.fit(rows_of())
    with pytest.raises(ValueError, match=r"need an .npz file, but '' does not exist"):
        ZeroShot().fit(rows_of())


def test_missing_classes_are_listed(file):
    with pytest.raises(ValueError, match=r"all 3 classes, but \['emu', 'yak'\] are missing"):
        ZeroShot(file=str(file)).fit(rows_of(("cat", "emu", "yak")))
    with pytest.raises(ValueError, match="but the rows have no class names"):
        ZeroShot(file=str(file)).fit(rows_of(()))


def test_another_width_is_rejected(file):
    with pytest.raises(ValueError, match="as wide as the classifier's input, 3, got 2"):
        ZeroShot(file=str(file)).fit(rows_of(width=3))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"weights": np.eye(2)}, "must hold the arrays weights and class_names"),
        ({"weights": np.eye(2), "class_names": np.array(["cat", "cat"])}, "name each class once"),
        ({"weights": np.eye(3), "class_names": np.array(NAMES)}, r"got \[3, 3\]"),
        ({"weights": np.eye(2) * np.nan, "class_names": np.array(NAMES)}, r"\[2, 2\] with NaN or infinity"),
    ],
)
def test_a_broken_file_is_rejected(file, arrays, message):
    np.savez(file, **arrays)
    with pytest.raises(ValueError, match=message):
        text_weights(str(file), "", NAMES)


def test_pickles_are_not_opened(file):
    np.savez(file, weights=np.eye(2), class_names=np.array(NAMES, dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        text_weights(str(file), "", NAMES)


def test_state_round_trip_and_prior(file):
    spec = ZeroShot(file=str(file))
    layer = spec.fit(rows_of())
    state = layer.state_dict()
    again = spec.blank(2, 2, {k: v.shape for k, v in state.items()})
    again.load_state_dict(state)
    x = torch.randn(4, 2)
    assert torch.equal(again(x), layer(x))
    assert spec.carried(torch.tensor([0.9, 0.1]).log()).exp().tolist() == pytest.approx([0.5, 0.5])
