"""The benchmark of stacks times heads that it has compared with those of the loop."""

import pytest

from frostbench.benchmarks.speed import stacks
from frostbench.benchmarks.speed.stacks import Case, Loop, Ours, measure

CASES = (
    Case("linear", heads=3, classes=4, hidden=(), batch=50, steps=4, loop_goal=0.0, dict_goal=0.0),
    Case("mlp", heads=3, classes=4, hidden=(16, 8), batch=50, steps=4, loop_goal=0.0),
)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(stacks, "ROWS", 300)
    monkeypatch.setattr(stacks, "DIM", 24)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_stack_and_the_loop_train_the_same_heads(monkeypatch, case):
    monkeypatch.setattr(stacks, "TOLERANCE", 0.001)
    names = [figure.name for figure in measure(case, 1, "cpu")]
    assert names == [f"stack.{case.name}.loop", *([f"stack.{case.name}.module_dict"] if case.dict_goal == 0 else [])]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("wrong", ["weights", "rate"])
def test_heads_that_differ_are_an_error_before_anything_is_timed(monkeypatch, case, wrong):
    if wrong == "weights":
        monkeypatch.setattr(Loop, "start_from", lambda *_: None)
    else:
        init = Ours.__init__
        monkeypatch.setattr(
            Ours,
            "__init__",
            lambda self, case, data, rates, batches: init(self, case, data, [2 * rate for rate in rates], batches),
        )
    monkeypatch.setattr(stacks, "compare", lambda *_, **__: pytest.fail("timed"))
    told = rf"must train the same heads as a loop .* after 3 steps of case '{case.name}' the logits of head [0-2] "
    with pytest.raises(ValueError, match=told):
        list(measure(case, 1, "cpu"))
