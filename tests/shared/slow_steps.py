"""A loss whose steps take seconds from a given step on, as those of a large stack do."""

SOURCE = '''
import pathlib
import time
from typing import Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import Spec
from frostbench.training.losses.scores import Scores

STEPS = []


class Slow(Spec):
    """Cross entropy that sleeps."""

    kind: Literal["slow"] = "slow"
    after: int = Field(default=3, ge=0)
    """Calls that take no time, those by which the engine looks whether it can be mapped included."""
    seconds: float = Field(default=8.0, ge=0)
    """How long every later step takes."""

    def __call__(self, scores: Scores, targets: Tensor) -> Tensor:
        STEPS.append(1)
        if len(STEPS) > self.after:
            pathlib.Path({mark!r}).touch()
            time.sleep(self.seconds)
        return -(targets * scores.log_p).sum(-1)
'''


def slow_bench(bench, folder, **options):
    """A bench that trains with it, one step an epoch; folder/slow is there as soon as a step takes its time."""
    path = folder / "slow_loss.py"
    path.write_text(SOURCE.format(mark=str(folder / "slow")))
    point = {f"train.loss.point.{name}": value for name, value in ({"kind": "slow"} | options).items()}
    return bench | {"plugins": [str(path)], "base": bench["base"] | point}
