"""Properties of every calibrator, over random logits and labels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.calibrators.isotonic import Isotonic
from frostbench.heads.posthoc.calibrators.matrix import Matrix
from frostbench.heads.posthoc.calibrators.none import NoCalibration
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.calibrators.vector import Vector

TOP_LABEL = Isotonic(form="top_label")
SPECS = (NoCalibration(), AutoTemperature(), Temperature(), Vector(), Matrix(), Isotonic(), TOP_LABEL)
KEEP_THE_CLASS = (NoCalibration(), AutoTemperature(), Temperature(), TOP_LABEL)
"""Calibrators that promise not to change the predicted class."""
LOWER_THE_LOSS = (NoCalibration(), Temperature(), Vector(), Matrix())
"""Calibrators that minimise the likelihood plus a penalty that is 0 for unchanged logits."""
FEW = settings(max_examples=20, derandomize=True, deadline=None)


@st.composite
def calibration_rows(draw):
    """Logits [N, C] and labels [N], drawn from their softmax at another temperature; N >= C² as `Matrix` requires."""
    classes = draw(st.integers(2, 5))
    rows = draw(st.integers(classes**2, 60))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    logits = draw(st.sampled_from([0.1, 1.0, 8.0])) * torch.randn(rows, classes, generator=generator)
    p = (logits / draw(st.sampled_from([0.5, 1.0, 4.0]))).double().softmax(1)
    return logits.double(), torch.multinomial(p, 1, generator=generator).squeeze(1)


def nll(log_p, labels):
    return -float(log_p.gather(1, labels[:, None]).mean())


def ids(spec):
    return f"{spec.kind}{getattr(spec, 'form', '')}"


@pytest.mark.parametrize("spec", SPECS, ids=ids)
@FEW
@given(rows=calibration_rows(), seed=st.integers(0, 2**31))
def test_probabilities_sum_to_one_and_the_order_of_rows_does_not_matter(spec, rows, seed):
    logits, labels = rows
    log_p = spec.apply(logits, spec.fit(logits, labels))
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(len(logits), dtype=torch.float64))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    permuted = spec.apply(logits, spec.fit(logits[order], labels[order]))
    torch.testing.assert_close(permuted.exp(), log_p.exp(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("spec", KEEP_THE_CLASS, ids=ids)
@FEW
@given(rows=calibration_rows())
def test_the_predicted_class_does_not_change(spec, rows):
    logits, labels = rows
    assert torch.equal(spec.apply(logits, spec.fit(logits, labels)).argmax(1), logits.argmax(1))


@pytest.mark.parametrize("spec", LOWER_THE_LOSS, ids=ids)
@FEW
@given(rows=calibration_rows())
def test_the_likelihood_of_the_fitted_rows_is_no_worse(spec, rows):
    logits, labels = rows
    log_p = spec.apply(logits, spec.fit(logits, labels))
    assert nll(log_p, labels) <= nll(logits.log_softmax(1), labels) + 1e-6
