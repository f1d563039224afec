"""Tuned benches: forms of the settings, and invalid ones."""

from pathlib import Path

import pytest
from tuned_benches import LR, RATES, bench_of

from frostbench.benchmarks.settings.parsing import SettingsError, parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand


class TestSettings:
    def names(self, **fields):
        return [row.name for row in expand(bench_of(Path(), **fields))]

    def test_a_grid_is_every_combination_and_a_list_its_points(self):
        found = self.names(
            toggles={"list": {"train.loss.smoothing.epsilon": 0.2}},
            tune={
                "plain": {LR: [0.01, 0.02], "train.optim.weight_decay": [0, 0.5]},
                "list": [{LR: 0.1}, {LR: 0.2, "posthoc.calibration.kind": "temperature"}, {}, {"columns": ["toy"]}],
            },
        )
        assert found[:4] == [
            "plain @ lr=0.01, weight_decay=0",
            "plain @ lr=0.01, weight_decay=0.5",
            "plain @ lr=0.02, weight_decay=0",
            "plain @ lr=0.02, weight_decay=0.5",
        ]
        assert found[4:] == [
            "list @ lr=0.1",
            "list @ lr=0.2, kind=temperature",
            "list @ as it is",
            "list @ columns=[toy]",
        ]

    def test_settings_lie_over_the_row_and_not_over_the_base(self):
        toggles = {"arc": {"preset": "arcface", "head.classifier.scale": 12}}
        tune = {"plain": {LR: [0.01, 0.02]}, "arc": {"head.classifier.margin": [0.1, 0.3]}}
        specs = [row.specs[1] for row in expand(bench_of(Path(), toggles=toggles, tune=tune))]
        assert [spec.train.optim.lr for spec in specs[:2]] == [0.01, 0.02]
        assert [(s.head.classifier.margin, s.head.classifier.scale, s.seed) for s in specs[2:]] == [
            (0.1, 12, 1),
            (0.3, 12, 1),
        ]

    def test_options_of_one_last_name_are_named_in_full(self):
        tau = {"train.loss.logit_adjustment.tau": [1], "posthoc.adjustment.tau": [0, 0.5]}
        found = self.names(tune={"plain": tau})
        assert found[1] == "plain @ train.loss.logit_adjustment.tau=1, posthoc.adjustment.tau=0.5"

    def test_rows_of_a_grid_are_tuned_by_their_name(self):
        tune = {name: {LR: [0.1, 0.2]} for name in ("plain", "epsilon=0.1")}
        assert len(self.names(grid={"train.loss.smoothing.epsilon": (0.1,)}, tune=tune)) == 4

    def test_two_rows_may_share_a_setting_and_numbers_that_look_alike_differ(self):
        one = {"plain": {LR: [0.01, 0.0100000001]}}
        assert self.names(tune=one) == ["plain @ lr=0.01", "plain @ lr=0.0100000001"]

    @pytest.mark.parametrize(
        ("tune", "words"),
        [
            ({"plain": RATES}, r"including the baseline, but `tune` leaves out \['arc'\]"),
            ({"plain": RATES, "arc": {}, "acr": RATES}, r"\['plain', 'arc'\], got \['acr'\]"),
            (
                {"plain": {LR: [0.1, 0.2, 0.3]}, "arc": {"head.classifier.margin": [0.1, 0.2], LR: [0.1, 0.2]}},
                "equally many settings, but 'plain' has 3, 'arc' has 4. Add or remove values, or use {}",
            ),
            ({"plain": RATES, "arc": [{}]}, "'plain' has 2, 'arc' has 1"),
            ({"plain": {LR: [1, 1.0]}, "arc": RATES}, r"'plain @ lr=1' has the same options as 'plain @ lr=1'"),
            ({"plain": {LR: []}, "arc": RATES}, r"a grid needs values, but Learning rate \(train.optim.lr\) has none"),
            ({"plain": {"train.optim.lrr": [1]}, "arc": {LR: [1]}}, "row 'plain @ lrr=1': .*Did you mean train.optim"),
            ({"plain": {"seed": [1]}, "arc": {LR: [1]}}, "but tune of 'plain' sets seed=1"),
            (
                {"plain": {LR: [1]}, "arc": [{"background": ["fir"]}]},
                "cannot be tuned, but `tune` of row 'arc' sets them",
            ),
        ],
    )
    def test_unequal_and_impossible_budgets_are_refused_in_words(self, tune, words):
        with pytest.raises(SettingsError, match=f"(?s){words}"):
            expand(bench_of(Path(), toggles={"arc": {"preset": "arcface"}}, tune=tune))

    def test_rows_with_the_same_settings_are_refused(self):
        tune = {"plain": RATES, "same": [{LR: 0.1}, {LR: 1e-6}]}
        with pytest.raises(SettingsError, match="'same' has the same options as 'plain'"):
            expand(bench_of(Path(), toggles={"same": {}}, tune=tune))

    def test_what_is_no_list_of_values_is_told(self):
        with pytest.raises(SettingsError, match=r"tune\.plain\.values\.train\.optim\.lr\): .*got 0\.1"):
            parse(BenchSpec, {"tune": {"plain": {LR: 0.1}}})
        with pytest.raises(SettingsError, match=r"tune\.plain\.list\.0\): .*got 0\.1"):
            parse(BenchSpec, {"tune": {"plain": [0.1]}})


def test_a_metric_that_settings_cannot_win_by_is_refused():
    with pytest.raises(SettingsError, match="tune_by"):
        parse(BenchSpec, {"tune_by": "ece"})
