"""The memory of a stack is estimated before it is trained."""

from dataclasses import replace

import pytest
import torch

from frostbench.training.data.part import Data, Part, Views
from frostbench.training.engine.memory import Need, need_of, parts_that_fit
from frostbench.training.run import RunSpec


def data(rows: int, dim: int = 10, classes: int = 3) -> Data:
    def part(n: int) -> Part:
        return Part({"x": torch.zeros(n, dim)}, torch.arange(n) % classes)

    return Data(part(rows), part(4), part(4), tuple("abcdefgh"[:classes]))


def test_a_linear_head_counts_parameters_logits_and_rows() -> None:
    run = RunSpec.model_validate({"train": {"schedule": {"batch_size": 8}}})
    need = need_of(run, data(100))
    assert need.rows == 3 * 4 * (100 + 4) * 10
    assert need.head == 4 * (6 * (3 * 10 + 3) + 8 * 8 * 3 + 4 * 4 * 3)


def test_an_mlp_counts_its_hidden_layers() -> None:
    run = RunSpec.model_validate(
        {"head": {"body": {"kind": "mlp", "hidden": [7]}}, "train": {"schedule": {"batch_size": 8}}}
    )
    parameters = (7 * 10 + 7) + 2 * 7 + (3 * 7 + 3)
    assert need_of(run, data(100)).head == 4 * (6 * parameters + 8 * 8 * (7 + 3) + 4 * (4 * 3 + 7))


def test_terms_count_the_pairs_of_a_batch() -> None:
    def head(loss: dict[str, object]) -> int:
        sampler = {"kind": "pxk", "classes": 3, "rows": 5}
        tree = {"head": {"body": {"kind": "mlp", "hidden": [7]}}, "train": {"sampler": sampler, "loss": loss}}
        return need_of(RunSpec.model_validate(tree), data(100)).head

    none = {"projector": {"kind": "none"}}
    assert head({"supcon": {"weight": 1} | none}) - head({}) == 4 * 8 * 15 * 15
    assert head({"bcl": {"weight": 1} | none}) - head({}) == 4 * 8 * 15 * (15 + 3)


def test_values_that_a_loss_stores_per_row_are_counted() -> None:
    def head(rows: int, loss: dict[str, object]) -> int:
        return need_of(
            RunSpec.model_validate({"train": {"loss": loss, "schedule": {"batch_size": 8}}}), data(rows)
        ).head

    for loss, numbers in (({}, 0), ({"crl": {"weight": 1}}, 2), ({"fedlas": {"alpha": 0.1}}, 1)):
        assert head(1100, loss) - head(100, loss) == 4 * 2 * 1000 * numbers


def test_attention_counts_its_weights_and_the_tokens_it_gathers() -> None:
    run = RunSpec.model_validate(
        {"head": {"body": {"kind": "attention_pool", "heads": 2}}, "train": {"schedule": {"batch_size": 8}}}
    )
    part = Part({"x": torch.zeros(100, 6, 10)}, torch.arange(100) % 3)
    held = Part({"x": torch.zeros(4, 6, 10)}, torch.arange(4) % 3)
    need = need_of(run, Data(part, held, held, ("a", "b", "c")))
    parameters = 10 + 10 * 10 + 2 * (10 * 10 + 10) + (3 * 10 + 3)
    inside = 2 * (6 + 10) + 4 * 10
    assert need.rows == 3 * 4 * (100 + 4) * 6 * 10
    assert need.head == 4 * (6 * parameters + 8 * 8 * (inside + 3) + 4 * (4 * 3 + inside))


def test_stacks_are_cut_to_what_fits() -> None:
    runs = [RunSpec.model_validate({"train": {"optim": {"kind": "adamw", "lr": 0.001 * k}}}) for k in range(1, 6)]
    need = need_of(runs[0], data(100))
    free = int((need.rows + 2.5 * need.head) / 0.8)
    assert parts_that_fit([0, 1, 2, 3, 4], runs, data(100), free) == [[0, 1], [2, 3], [4]]


def test_views_that_a_run_names_are_rows_like_others() -> None:
    rows = torch.arange(30)
    views = Views({"x": torch.zeros(30, 10)}, rows, rows % 3, torch.ones(30))
    other = Views({"x": torch.zeros(7, 10)}, rows[:7], rows[:7] % 3, torch.ones(7))
    plain, named = RunSpec(), RunSpec(view_sets=("flip",))
    with_views = replace(data(100), views={"flip": views, "crop": other})
    assert need_of(named, with_views) == need_of(plain, data(130))
    assert need_of(plain, with_views) == need_of(plain, data(100))


def test_too_little_memory_is_refused_with_figures() -> None:
    with pytest.raises(ValueError, match=r"80% of the 0\.06 GiB of free memory, but the rows need 0\.11 GiB and"):
        parts_that_fit([0], [RunSpec()], data(1_000_000), 2**26)


def test_free_memory_may_be_too_small_for_any_head() -> None:
    assert Need(rows=100, head=30).heads_within(100) == 0


@pytest.mark.parametrize(("second", "width"), [("crt", 7), ("lws", 3)])
def test_a_second_stage_counts_its_inputs_for_all_rows(second: str, width: int) -> None:
    plain = RunSpec.model_validate({"head": {"body": {"kind": "mlp", "hidden": [7]}}})
    run = RunSpec.model_validate(plain.model_dump() | {"second": {"kind": second}})
    assert need_of(run, data(100)).head - need_of(plain, data(100)).head == 4 * 2 * (100 + 4) * width
