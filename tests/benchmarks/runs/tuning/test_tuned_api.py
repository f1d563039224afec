"""Tuned comparisons on arrays."""

import numpy as np
import pytest
from tuned_benches import LR, SHORT, fail

from frostbench.benchmarks.api import compare as compare_settings
from frostbench.benchmarks.settings.parsing import SettingsError


class TestApi:
    @pytest.fixture
    def arrays(self):
        labels = np.repeat([0, 1, 2], [60, 40, 20])
        return 3 * np.eye(3, 5)[labels] + np.random.default_rng(3).normal(0, 1, (120, 5)), labels

    def test_rows_are_tuned_by_the_names_they_were_given(self, arrays):
        rows = {"mine": SHORT, "smooth": {"train.loss.smoothing.epsilon": 0.1}}
        tune = {"mine": {LR: [1e-6, 0.1]}, "smooth": [{LR: 0.1}, {LR: 1e-6}]}
        made = compare_settings(*arrays, rows, preset="plain", seeds=(0, 1), tune=tune).comparison
        assert [(line["row"], line["setting"]) for line in made.settings if line["won"]] == [
            ("mine", "lr=0.1"),
            ("smooth", "lr=0.1"),
        ]
        assert any("Winners: 'mine' with lr=0.1" in note for note in made.notes)
        assert made.line("mine", "macro_f1_fg")["value"] > 0.8

    def test_a_row_that_is_left_out_is_told_by_the_names_they_were_given(self, arrays):
        with pytest.raises(SettingsError, match=r"`tune` leaves out \['mine'\]"):
            compare_settings(*arrays, {"mine": {}, "b": {LR: 1}}, tune={"b": {}})
        with pytest.raises(SettingsError, match=r"\['mine', 'b'\], got \['plain'\]"):
            compare_settings(*arrays, {"mine": {}, "b": {LR: 1}}, preset="plain", tune={"plain": {}, "b": {}})

    def test_a_setting_that_fails_loses_and_a_row_without_tuning_still_raises(self, arrays, monkeypatch):
        fail(monkeypatch, lambda spec: spec.train.optim.lr == 0.1)
        rows = {"mine": SHORT, "smooth": {"train.loss.smoothing.epsilon": 0.1}}
        tune = {name: {LR: [0.1, 0.02]} for name in rows}
        made = compare_settings(*arrays, rows, preset="plain", seeds=(0,), tune=tune).comparison
        assert [line["setting"] for line in made.settings if line["won"]] == ["lr=0.02", "lr=0.02"]
        with pytest.raises(ValueError, match="it diverged"):
            compare_settings(*arrays, {"mine": SHORT | {LR: 0.1}, "b": {LR: 0.02}}, preset="plain", seeds=(0,))
