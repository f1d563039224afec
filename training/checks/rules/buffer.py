"""Rules of the shuffle buffer."""

from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import Shuffled


def _is_one_block(run: RunSpec) -> bool:
    sampler = run.train.sampler
    return isinstance(sampler, Shuffled) and (sampler.buffer_rows or 0) < 2 * sampler.block_rows


def _is_buffered(run: RunSpec) -> bool:
    return isinstance(run.train.sampler, Shuffled) and run.train.sampler.buffer_rows is not None


def _has_unused_blocks(run: RunSpec) -> bool:
    sampler = run.train.sampler
    return isinstance(sampler, Shuffled) and sampler.block_rows != Shuffled().block_rows and not _is_buffered(run)


BUFFER_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: _is_buffered(run) and _is_one_block(run),
        "a buffer must hold two blocks or more: raise train.sampler.buffer_rows to twice train.sampler.block_rows",
    ),
    Rule(
        "no effect",
        _has_unused_blocks,
        "without a buffer, train.sampler.block_rows has no effect: set train.sampler.buffer_rows",
    ),
    Rule(
        "no effect",
        lambda run: _is_buffered(run) and run.is_solved,
        "a closed-form classifier such as logreg reads all rows at once, so a buffer has no effect: set "
        "train.sampler.buffer_rows=null",
    ),
)
