import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from frostbench.heads.posthoc.calibrators.isotonic import Isotonic


class Given(ClassifierMixin, BaseEstimator):
    """Rows as log-probabilities."""

    def fit(self, x, y):
        self.classes_, self.is_fitted_ = np.unique(y), True
        return self

    def predict_proba(self, x):
        return np.exp(x)

    def predict(self, x):
        return self.classes_[x.argmax(1)]


def overconfident(rows=800, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    true = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    return 2.5 * true, labels


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_one_versus_rest_agrees_with_scikit_learn(classes):
    logits, labels = overconfident(classes=classes)
    x, y = logits.log_softmax(1).numpy(), labels.numpy()
    model = FrozenEstimator(Given().fit(x, y))
    theirs = CalibratedClassifierCV(model, method="isotonic", ensemble=False).fit(x[:500], y[:500])
    spec = Isotonic()
    ours = spec.apply(logits[500:], spec.fit(logits[:500], labels[:500])).exp().numpy()
    assert ours == pytest.approx(theirs.predict_proba(x[500:]), abs=1e-12)


def test_a_step_function_by_hand():
    """Confidence 0.9 is correct in 1 of 2 rows and 0.6 in 2 of 2, which is pooled to 3 of 4."""
    p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 0])
    spec = Isotonic(form="top_label")
    found = spec.apply(p.log(), spec.fit(p.log(), labels)).exp()
    assert found[:, 0].tolist() == pytest.approx([0.75] * 4)


def test_a_row_of_zeros_keeps_its_probabilities():
    """If all three classes have probability 1/3 and none is correct, each function is 0 there."""
    sure = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] * 2).double()
    unsure = torch.tensor([[0.4, 0.35, 0.25], [0.25, 0.4, 0.35], [0.35, 0.25, 0.4]]).double()
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 2, 0, 1])
    spec = Isotonic()
    numbers = spec.fit(torch.cat([sure, unsure]).log(), labels)
    asked = torch.tensor([[0.36, 0.34, 0.30], [0.05, 0.05, 0.90]]).double()
    numbers = dict(numbers) | {"y": torch.where(numbers["x"] < 0.7, 0.0, numbers["y"])}
    found = spec.apply(asked.log(), numbers).exp()
    assert found[0].tolist() == pytest.approx(asked[0].tolist())
    assert found[1].tolist() == pytest.approx([0, 0, 1], abs=1e-12)
    assert found.log().isfinite().all()


def test_the_top_label_is_kept_and_the_others_keep_their_ratios():
    logits, labels = overconfident(classes=5)
    wrong = torch.where(torch.arange(len(labels)) % 10 < 8, (logits.argmax(1) + 1) % 5, labels)
    spec = Isotonic(form="top_label")
    for given in (labels, wrong):
        found = spec.apply(logits, spec.fit(logits, given)).exp()
        assert torch.equal(found.argmax(1), logits.argmax(1))
        assert found.sum(1).tolist() == pytest.approx([1] * len(found))
        rest = logits.softmax(1).scatter(1, logits.argmax(1, keepdim=True), 0)
        after = found.scatter(1, logits.argmax(1, keepdim=True), 0)
        assert torch.allclose(after / after.sum(1, keepdim=True), rest / rest.sum(1, keepdim=True), atol=1e-9)


def test_the_top_label_is_also_kept_in_single_precision():
    logits, labels = overconfident(classes=5)
    spec = Isotonic(form="top_label")
    numbers = spec.fit(logits, (logits.argmax(1) + 1) % 5)
    assert torch.equal(spec.apply(logits.float(), numbers).argmax(1), logits.float().argmax(1))
    assert labels.max() == 4


def test_the_confidence_of_the_top_label_becomes_its_accuracy():
    logits, labels = overconfident(rows=20_000)
    spec = Isotonic(form="top_label")
    found = spec.apply(logits, spec.fit(logits, labels)).exp().amax(1)
    right = (logits.argmax(1) == labels).double()
    sure = found > 0.7
    assert found[sure].mean().item() == pytest.approx(right[sure].mean().item(), abs=5e-3)


def test_a_single_class_has_probability_one():
    logits = torch.tensor([[1.0, -torch.inf], [2.0, -torch.inf]])
    for form in ("one_vs_rest", "top_label"):
        spec = Isotonic(form=form)
        found = spec.apply(logits, spec.fit(logits, torch.tensor([0, 0])))
        assert found.exp().tolist() == [[1, 0], [1, 0]]
