"""The form as plain HTML controls: one row per option, with a control for A and one for B.

A page with two hundred of Gradio's controls takes seconds to react to a click, so the form uses plain controls, which
form.js keeps in sync with the replies of `frostbench.app.page.form_update`.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from frostbench.app.page.form import CACHE_ROW, SIDES, SPLIT_ROWS
from frostbench.app.page.pieces import NAMES, dom_id, side_html
from frostbench.app.page.state import MOST_SEEDS
from frostbench.app.rows import Row
from frostbench.app.sides import CUSTOM, ROWS, Switch, switches
from frostbench.benchmarks.settings.parsing import preset_names
from frostbench.heads.titles import label_of, named
from frostbench.training.losses.loss import catalogue
from frostbench.training.run import RunSpec
from frostbench.training.spec.stage import StageSpec

SAMPLING = "Sampling and augmentation"
TITLES = {
    "columns": "Data",
    "view_sets": SAMPLING,
    "tta": "After training",
    "background": "Data",
    "shots": "Data",
    "head": "Head",
    "train.loss": "Loss",
    "train.loss.class_weight": "Class balance",
    "train.loss.weight_schedule": "Class balance",
    "train.loss.count": "Class balance",
    "train.oversample": SAMPLING,
    "train.sampler": SAMPLING,
    "train.frofa": SAMPLING,
    "train": "Training",
    "order_seed": "Training",
    "second": "Second stage",
    "posthoc": "After training",
    **{f"train.{n}": f.annotation.group for n, f in StageSpec.model_fields.items() if hasattr(f.annotation, "group")},
    **{f"train.loss.{field}": kinds[0].group for field, kinds in catalogue().items()},
}
"""Group titles by path prefix; the longest prefix wins, and the default is the label of the path's first part."""
CLOSED = ("Confidence", "Contrast", SAMPLING)
"""Groups that are initially closed."""
FIRST_PRESETS = ("plain", "baseline", "full")
SEEDS = Row(
    "seeds",
    "seeds",
    "Seeds",
    "Number of random seeds each side is trained with. A verdict needs at least two, preferably five.",
    "number",
    whole=True,
    low=1,
    high=MOST_SEEDS,
)


def form_html() -> str:
    """Return all rows without their values, which form.js fills in."""
    groups: dict[str, list[Row]] = {"Data": [CACHE_ROW]}
    for row in ROWS:
        groups.setdefault(title_of(row), []).append(row)
    parts = [_presets()]
    for title, rows in groups.items():
        parts.append(_group(title, "".join(_rows(rows, SIDES)), title, title not in CLOSED))
        if title == "Data":
            parts.append(_group("Methods", "".join(map(_switch, switches())), "Methods"))
    shared = "".join(_rows([SEEDS], ("seeds",))) + "".join(_rows(SPLIT_ROWS, ("split",)))
    parts.append(_group("Seeds and split (shared by A and B)", shared, "shared"))
    only = '<label class="fp-only"><input type="checkbox" id="only-differing">Show only differences</label>'
    parts.insert(0, only)
    # The controls are disabled until the server has sent their values.
    inner = f'<fieldset id="options-fields" disabled>{"".join(parts)}</fieldset>'
    return f'<div class="fp fp-form fp-loading" id="form" data-testid="form" data-state="loading">{inner}</div>'


def title_of(row: Row) -> str:
    """Return the title of a row's group."""
    parts = row.path.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in TITLES:
            return TITLES[".".join(parts[:length])]
    return label_of(RunSpec, parts[0])


def _group(title: str, rows: str, name: str, is_open: bool = True) -> str:
    opened = " open" if is_open else ""
    head = f"<summary>{escape(title)}</summary>"
    return f'<details class="fp-group" id="{dom_id("group", name)}"{opened}>{head}{rows}</details>'


def _rows(rows: Sequence[Row], sides: tuple[str, ...]) -> list[str]:
    """Return rows in order, with experimental ones in a closed group at the end.

    Experimental options of a kind stay in place if a core row offers that kind, because the kind is selected there.
    """
    core = {row.key for row in rows if row.tier == "core"}
    experimental = [row for row in rows if row.tier != "core" and not any(key in core for key, _ in row.needs)]
    parts = [_row(row, sides) for row in rows if row not in experimental]
    if experimental:
        name = f"{title_of(experimental[0])} experimental"
        parts.append(_group("Experimental", "".join(_row(row, sides) for row in experimental), name, is_open=False))
    return parts


def _row(row: Row, sides: tuple[str, ...]) -> str:
    first = "split" if sides == ("split",) else "row"
    dom = dom_id(first, row.key)
    path = f"split.{row.path}" if first == "split" else row.path
    key = "" if row in (CACHE_ROW, SEEDS) else f'<code class="fp-key">{escape(path)}</code>'
    nested = " fp-nested" if row.needs else ""
    cells = "".join(f'<div class="fp-cell" data-side="{side}">{_control(row, side, dom)}</div>' for side in sides)
    return (
        f'<div class="fp-row{nested}" id="{dom}" data-row="{escape(row.key)}"><div class="fp-label">'
        f'<b>{escape(row.label)}</b>{key}<p id="{dom}-help">{escape(row.sentence)}</p><div class="fp-reasons"></div>'
        f"</div>{cells}</div>"
    )


def _control(row: Row, side: str, dom: str) -> str:
    name = row.label if side in ("seeds", "split") else f"{side}: {row.label}"
    attributes = {
        "id": dom_id(side, row.key),
        "aria-label": name,
        "aria-describedby": f"{dom}-help",
        "data-side": side,
        "data-key": row.key,
        "data-control": row.control,
    }
    if row.control == "choice":
        return f"<select{_attributes(attributes)}>{_choices(row)}</select>"
    if row.control == "flag":
        return f'<label class="fp-flag"><input type="checkbox"{_attributes(attributes)}><span></span></label>'
    if row.control == "number":
        bounds = {name: f"{end:g}" for name, end in (("min", row.low), ("max", row.high)) if end is not None}
        # The bounds are only hints for the browser; the spec checks them and explains errors.
        hint = {"placeholder": f"empty: {row.empty}" if row.empty else "may be empty"} if row.optional else {}
        return f'<input type="number" step="{1 if row.whole else "any"}"{_attributes(attributes | bounds | hint)}>'
    chips = '<div class="fp-names"></div>' if row.control == "names" else ""
    hint = {"names": "the first" if row.key == "columns" else "none", "numbers": "comma-separated numbers"}
    attributes["placeholder"] = hint.get(row.control, "")
    return f'<input type="text" autocomplete="off" spellcheck="false"{_attributes(attributes)}>{chips}'


def _choices(row: Row) -> str:
    core = "".join(f"<option>{escape(name)}</option>" for name in row.choices if name not in row.experimental)
    experimental = "".join(f"<option>{escape(name)}</option>" for name in row.experimental)
    return core + (f'<optgroup label="Experimental">{experimental}</optgroup>' if experimental else "")


def _attributes(attributes: Mapping[str, Any]) -> str:
    return "".join(f' {name}="{escape(str(value))}"' for name, value in attributes.items())


def _presets() -> str:
    cells = []
    for side in SIDES:
        names = (*sorted(preset_names(), key=_preset_order), CUSTOM)
        options = "".join(f'<option value="{name}">{name}</option>' for name in names)
        cells.append(
            f'<div class="fp-cell">{side_html(side, "h3", NAMES[side])}<select id="preset-{side}" '
            f'data-preset="{side}" aria-label="{side}: Preset">{options}'
            "</select></div>"
        )
    label = "<b>Preset</b><p>Sets all options of a side; change any of them below.</p>"
    return f'<div class="fp-row fp-head"><div class="fp-label">{label}</div>{"".join(cells)}</div>'


def _preset_order(name: str) -> tuple[int, str]:
    """Sort key: the general presets first, then the methods by name."""
    return (FIRST_PRESETS.index(name) if name in FIRST_PRESETS else len(FIRST_PRESETS), name)


def _switch(switch: Switch) -> str:
    options = {**switch.sets, **switch.needs}.items()
    keys = ", ".join(f"{named(RunSpec, path)} = {value}" for path, value in options)
    cells = "".join(
        f'<div class="fp-cell"><label class="fp-flag"><input type="checkbox" data-switch="{escape(switch.name)}" '
        f'id="{dom_id(side, "switch", switch.name)}" aria-label="{side}: {escape(switch.name)}" data-side="{side}">'
        "<span></span></label></div>"
        for side in SIDES
    )
    return (
        f'<div class="fp-row" id="{dom_id("row-switch", switch.name)}"><div class="fp-label">'
        f"<b>{escape(switch.name)}</b>"
        f'<p>{escape(switch.help)}</p><code class="fp-key">{escape(keys)}</code></div>{cells}</div>'
    )
