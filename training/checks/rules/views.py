"""Rules of several views per image."""

from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import Shuffled
from frostbench.training.sampling.oversample import NoOversample


def _come_together(run: RunSpec) -> bool:
    return run.train.views == "together"


VIEW_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: _come_together(run) and not isinstance(run.train.oversample, NoOversample),
        "synthetic rows are views of no image, so they cannot be batched by image: set "
        "train.oversample.kind=none, or train.views=samples",
    ),
    Rule(
        "refuse",
        lambda run: (
            run.train.views != "samples"
            and isinstance(run.train.sampler, Shuffled)
            and run.train.sampler.buffer_rows is not None
        ),
        "a buffer shuffles rows, not images, whose views may lie in different blocks: set train.views=samples, or "
        "train.sampler.buffer_rows=null",
    ),
    Rule(
        "refuse",
        lambda run: _come_together(run) and run.is_solved,
        "a closed-form classifier such as logreg has no batches in which views could come together: set "
        "train.views=samples or averaged",
    ),
)
