"""The form of the tab Train as the page sends it."""

from dataclasses import asdict

from frostbench.app.forms import values_of
from frostbench.app.sides import with_preset
from frostbench.app.workbench.train.form import SIDES, SPLIT_ROWS, Form
from frostbench.embedcache.splits.spec import SplitSpec


def first_form(workspace):
    """Return presets baseline and full on the first cache, with three seeds, as JSON values."""
    cache = next(iter(workspace.cache_names()), None)
    presets = zip(SIDES, ("baseline", "full"), strict=True)
    sides = {side: {"cache": cache} | with_preset({}, preset) for side, preset in presets}
    return asdict(Form(sides, 3, values_of(SPLIT_ROWS, SplitSpec())))
