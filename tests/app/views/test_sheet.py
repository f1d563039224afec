"""Contrast and scope of the style sheet."""

import re
from importlib import resources

import pytest
from colors import contrast, mixed, rgb

CSS = (resources.files("frostbench.app.views") / "views.css").read_text("utf-8")
PAPERS = {"light": ("#ffffff", "#27272a", "#52525b"), "dark": ("#27272a", "#f4f4f5", "#d4d4d8")}
"""Gradio's panel, its text and its subdued text, with the neutral hue zinc."""


@pytest.mark.parametrize("theme", PAPERS)
def test_marks_stand_out_three_to_one_and_words_four_and_a_half(theme):
    """WCAG 2.2, 1.4.11 and 1.4.3; the strongest tints are those of the style sheet."""
    css, (paper, ink, muted) = CSS, map(rgb, PAPERS[theme])
    colors = {name: rgb(code) for name, code in re.findall(r"--(A|B|good|bad|grey): (#\w{6});", css)}
    assert set(colors) == {"A", "B", "good", "bad", "grey"}
    for name, color in colors.items():
        assert contrast(color, paper) >= 3, name
    # Half is the darkest cell of a side's own confusion matrix.
    shades = [0.5, *(int(v) / 100 for v in re.findall(r"--shade: (\d+)%", css))]
    for name in ("good", "bad"):
        assert contrast(ink, mixed(colors[name], paper, max(shades))) >= 4.5, name
    # The hatch of bad cells lies over their tint.
    hatched = mixed(colors["bad"], mixed(colors["bad"], paper, max(shades[1:])), 0.3)
    assert contrast(ink, hatched) >= 4.5
    for name in ("A", "B"):
        assert contrast(muted, mixed(colors[name], paper, 0.22)) >= 4.5, name
    assert contrast(muted, paper) >= 4.5


def test_only_marks_take_a_side_s_colour():
    colored = re.findall(r"([^{}]+)\{[^{}]*(?<![-\w])color: var\(--(?:A|B|good|bad|grey)\)", CSS)
    assert colored
    assert all(".fb-key" in selector for selector in colored)


def test_every_rule_stays_below_the_root():
    css = re.sub(r"/\*.*?\*/", "", CSS, flags=re.S)
    selectors = [part.strip() for block in re.findall(r"([^{}@]+)\{", css) for part in block.split(",")]
    assert all(one.startswith((".fb ", ".fb.", ".fb")) or one.startswith("media") for one in selectors)
