"""Run keys and a few training traces are those that were recorded: a redesign changes no number and renames no run."""

import json

import pytest
import torch
from recording import GOLDEN, TRACED, everything, golden, keyed

HELD = json.loads(GOLDEN.read_text())


@pytest.fixture(scope="module")
def now():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield golden()
    torch.set_num_threads(threads)


def test_run_keys_are_those_that_were_recorded():
    found = {name: key for name, run, _ in everything() if (key := keyed(run))}
    assert {name: found.get(name) for name in HELD["keys"]} == HELD["keys"]
    assert found.keys() == HELD["keys"].keys(), "a new kind: python tests/shared/recording.py --golden"


@pytest.mark.parametrize("name", TRACED)
def test_losses_of_each_step_and_what_the_heads_say(now, name):
    ours, held = now["traces"][name], HELD["traces"][name]
    for key in ("losses", "says"):
        torch.testing.assert_close(
            torch.tensor(ours[key], dtype=torch.float64),
            torch.tensor(held[key], dtype=torch.float64),
            # float32 sums in another order, as other processors add them, differ by up to 5e-6 here.
            rtol=2e-5,
            atol=1e-5,
        )
