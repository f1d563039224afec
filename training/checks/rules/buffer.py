"""Rules of the buffer in which rows are shuffled."""

from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.run_properties import is_solved
from frostbench.training.sampling.batches import Shuffled


def _is_one_block(run: RunSpec) -> bool:
    sampler = run.train.sampler
    return isinstance(sampler, Shuffled) and (sampler.buffer_rows or 0) < 2 * sampler.block_rows


def _is_buffered(run: RunSpec) -> bool:
    return isinstance(run.train.sampler, Shuffled) and run.train.sampler.buffer_rows is not None


def _unread_blocks(run: RunSpec) -> bool:
    sampler = run.train.sampler
    return isinstance(sampler, Shuffled) and sampler.block_rows != Shuffled().block_rows and not _is_buffered(run)


BUFFER_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: _is_buffered(run) and _is_one_block(run),
        "a buffer mixes two blocks or more: set train.sampler.buffer_rows to twice train.sampler.block_rows at least",
    ),
    Rule(
        "no effect",
        _unread_blocks,
        "blocks go into a buffer and there is none, so train.sampler.block_rows has no effect: set "
        "train.sampler.buffer_rows",
    ),
    Rule(
        "no effect",
        lambda run: _is_buffered(run) and is_solved(run),
        "a solved classifier such as logreg takes all rows at once, so a buffer has no effect: set "
        "train.sampler.buffer_rows=null",
    ),
)
