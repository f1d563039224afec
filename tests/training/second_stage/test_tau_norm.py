"""Tau-normalisation: hand-computed values, and weights divided by the test."""

import pytest
import torch
from catalogue import BASE, MLP, data, merged

from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.metrics.classification import decision_metrics
from frostbench.training.run import RunSpec
from frostbench.training.second_stage.tau_norm import POWERS, tau_normalised

ROWS = data()
COUNTS = torch.tensor([40, 20, 10, 1, 0])


def run(*trees):
    return RunSpec.model_validate(merged(BASE, MLP, {"order_seed": 3}, *trees))


def ends(*runs):
    found = {event.run: event for event in fit(runs, ROWS) if isinstance(event, Finished)}
    return [found[place] for place in range(len(runs))]


def state(end):
    return end.head.head.state_dict()


def hidden(end, part=ROWS.train):
    with torch.no_grad():
        return end.head.head.hidden(part.columns["x"])


class TestTauNorm:
    def test_the_vectors(self):
        """Kang et al., ICLR 2020, section 4.2; a row of zeros stays."""
        weight = torch.tensor([[3.0, 4], [0.6, 0.8], [0, 0.5], [0, 0]], dtype=torch.float64)
        half = [[1.3416407864998738, 1.7888543819998317], [0.6, 0.8], [0, 0.7071067811865475], [0, 0]]
        assert tau_normalised(weight, 0.0).tolist() == weight.tolist()
        assert tau_normalised(weight, 0.5).flatten().tolist() == pytest.approx([v for row in half for v in row])
        whole = [0.6, 0.8, 0.6, 0.8, 0, 1, 0, 0]
        assert tau_normalised(weight, 1.0).flatten().tolist() == pytest.approx(whole)

    @pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
    def test_weights_are_divided_by_a_power_of_their_length_and_biases_go(self, tau):
        (plain,), (end,) = ends(run()), ends(run({"second": {"kind": "tau_norm", "tau": tau}}))
        weight = state(plain)["classifier.weight"].double()
        wanted = weight / weight.norm(dim=1, keepdim=True) ** tau
        assert torch.allclose(state(end)["classifier.weight"].double(), wanted, rtol=1e-5, atol=1e-6)
        assert (state(end)["classifier.bias"] == 0).all()
        assert end.head.priors.implied.tolist() == pytest.approx([0.25, 0.25, 0.25, 0.25, 0])

    @pytest.mark.parametrize("metric", ["balanced_accuracy", "last"])
    def test_the_power_is_that_of_lowest_nll_among_the_best_on_the_selection_rows(self, metric):
        stop = {"train": {"early_stop": {"metric": metric}}}
        (plain,), (end,) = ends(run(stop)), ends(run(stop, {"second": {"kind": "tau_norm"}}))
        weight, x = state(plain)["classifier.weight"].double(), hidden(plain, ROWS.select).double()
        known = ROWS.select.labels < 4
        values = []
        for power in POWERS:
            logits = (x @ (weight / weight.norm(dim=1, keepdim=True) ** power).T)[:, :4]
            found = decision_metrics(ROWS.select.labels, logits.argmax(1), COUNTS)
            nll = torch.nn.functional.cross_entropy(logits[known], ROWS.select.labels[known])
            values.append((round(found["macro_f1_fg" if metric == "last" else metric], 9), -nll.item()))
        best = POWERS[values.index(max(values))]
        wanted = weight / weight.norm(dim=1, keepdim=True) ** best
        assert torch.allclose(state(end)["classifier.weight"].double(), wanted, rtol=1e-5, atol=1e-6)

    def test_a_stop_between_the_stages_leaves_the_first(self):
        spec = run({"second": {"kind": "tau_norm"}})
        calls = []

        def stop():
            calls.append(1)
            return len(calls) >= 2

        events = list(fit([spec], ROWS, stop))
        assert len([e for e in events if isinstance(e, Epoch)]) == 2
        assert events[-1].reason == "stopped"
        assert (events[-1].head.head.state_dict()["classifier.bias"] != 0).any()
