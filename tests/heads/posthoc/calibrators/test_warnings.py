from dataclasses import replace

import pytest
import torch

from frostbench.heads.bundle.card import card_of
from frostbench.heads.bundle.export import load, save
from frostbench.heads.head import HeadSpec
from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.calibrators.isotonic import Isotonic
from frostbench.heads.posthoc.calibrators.matrix import Matrix
from frostbench.heads.posthoc.calibrators.none import NoCalibration
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.calibrators.vector import Vector
from frostbench.heads.posthoc.calibrators.warnings import calibration_warnings
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.trained import Priors, TrainedHead

NAMES = ("ash", "beech", "cedar")
LABELS = torch.arange(30) % 3
RIGHT = Calibration(4 * torch.eye(3)[LABELS], LABELS)
WRONG = Calibration(4 * torch.eye(3)[(LABELS + 1) % 3], LABELS)
MIXED = Calibration(torch.cat([RIGHT.logits[:24], WRONG.logits[24:]]), LABELS)


def fitted(kind, rows):
    layers = Layers.of(PosthocSpec(calibration=kind), NAMES).fitted_to(rows)
    return calibration_warnings(layers.spec, layers.temperature, rows)


def test_a_temperature_of_rows_without_an_optimum_gives_a_warning():
    (warning,) = fitted(Temperature(), RIGHT)
    assert warning.startswith(
        "all 30 calibration rows are classified correctly, so nothing limits the confidence that a temperature"
    )
    (warning,) = fitted(Temperature(), WRONG)
    assert warning.startswith(
        "a temperature of 20 lies at the bound of the search on 30 calibration rows: the head is no"
    )
    (warning,) = fitted(Temperature(), Calibration(1e-3 * MIXED.logits, LABELS))
    assert warning.startswith(
        "a temperature of 0.05 lies at the bound of the search on 30 calibration rows: the scores"
    )


def test_a_single_row_is_told_in_the_singular():
    spec = PosthocSpec(calibration=Temperature())
    right, wrong = (Calibration(rows.logits[:1], LABELS[:1]) for rows in (RIGHT, WRONG))
    (warning,) = calibration_warnings(spec, 1.0, right)
    assert warning.startswith("the only calibration row is classified correctly, so nothing limits the confidence")
    (warning,) = calibration_warnings(spec, 20.0, wrong)
    assert warning.startswith("a temperature of 20 lies at the bound of the search on 1 calibration row: the head is")


@pytest.mark.parametrize("kind", [Vector(), Matrix(), Isotonic()])
def test_other_calibrations_on_perfect_rows_give_a_warning(kind):
    (warning,) = fitted(kind, RIGHT)
    assert warning.startswith(
        f"all 30 calibration rows are classified correctly, so nothing limits the confidence that {kind.kind}"
    )


@pytest.mark.parametrize("kind", [Temperature(), Vector(), Matrix(), Isotonic()])
def test_ordinary_rows_give_no_warning(kind):
    assert fitted(kind, MIXED) == ()


def test_an_automatic_temperature_is_bounded_by_its_prior_on_perfect_rows():
    assert 0.2 < Layers.of(PosthocSpec(), NAMES).fitted_to(RIGHT).temperature < 1
    assert fitted(AutoTemperature(), RIGHT) == fitted(AutoTemperature(), MIXED) == ()
    far = Calibration(MIXED.logits.repeat(100, 1) * 1e-3, LABELS.repeat(100))
    assert fitted(AutoTemperature(), far)[0].startswith("a temperature of 0.05 lies at the bound of the search")


def head_of(kind, counts):
    """Return an untrained linear head with a calibrator and class counts."""
    spec, counts = HeadSpec(), torch.tensor(counts)
    share = counts.double() / counts.sum()
    return TrainedHead(
        spec=spec,
        head=spec.build(torch.zeros(2, 4), 3, torch.Generator()).eval(),
        columns=("a",),
        class_names=NAMES,
        priors=Priors(counts, share, share, share),
        shift=torch.zeros(3),
        layers=Layers.of(PosthocSpec(calibration=kind), NAMES),
    )


@pytest.mark.parametrize("kind", [Temperature(), AutoTemperature()])
def test_the_card_has_the_temperature_under_a_uniform_prior(kind):
    head = head_of(kind, [80, 10, 10]).fitted_to(MIXED)
    wanted = head.under(dict.fromkeys(NAMES, 1 / 3)).temperature
    assert abs(wanted - head.temperature) > 0.01
    assert card_of(head, {"head.safetensors": b""}).temperature_under_uniform_prior == wanted


def test_without_a_fit_there_is_no_warning():
    assert calibration_warnings(PosthocSpec(calibration=NoCalibration()), 1.0, RIGHT) == ()
    assert calibration_warnings(PosthocSpec(calibration=Temperature()), 1.0, None) == ()


def test_the_card_of_a_bundle_holds_the_warning(tmp_path):
    head = head_of(Temperature(), [10, 10, 10])
    save(head.fitted_to(RIGHT), tmp_path / "perfect")
    assert '"all 30 calibration rows are classified correctly' in (tmp_path / "perfect" / "card.json").read_text()
    assert load(tmp_path / "perfect").head.warnings == head.fitted_to(RIGHT).warnings != ()
    save(replace(head).fitted_to(MIXED), tmp_path / "plain")
    assert '"warnings": []' in (tmp_path / "plain" / "card.json").read_text()
