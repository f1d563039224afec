"""Documents: options.md in step, links that lead somewhere, commands that exist."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from frostbench.app.actions.options import ROOTS
from frostbench.app.cli import app
from frostbench.benchmarks.settings.options import options_markdown
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_options_are_in_step_with_the_code():
    assert (ROOT / "docs" / "options.md").read_text(encoding="utf-8") == options_markdown(ROOTS), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not link.startswith("https://") and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_that_are_named_exist(page):
    named = re.findall(
        r"`((?:app|benchmarks|configs|embedcache|heads|training|tests|docs)/[\w/.]*)`", page.read_text(encoding="utf-8")
    )
    missing = [name for name in named if not (ROOT / name).exists() and "yours" not in name]
    assert missing == []


def test_rooms_of_the_architecture_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folder, missing = "", []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 5 or cells[1] in ("folder", "---"):
            continue
        folder = cells[1] or folder
        named = re.findall(r"`([\w/.]+)`", cells[2])
        missing += [n for n in named if not (ROOT / folder / n).exists()]
        rooms = [ROOT / folder / n for n in named if n.endswith("/")]
        inside = re.findall(r"`(\w+\.py)`", cells[3]) if rooms else []
        missing += [n for n in inside if not any((room / n).exists() for room in rooms)]
    assert missing == []


def test_the_bench_of_the_readme_is_valid():
    (text,) = blocks("yaml")
    rows = expand(parse(BenchSpec, yaml.safe_load(text)))
    assert [row.name for row in rows] == ["baseline", "logit adjustment instead of weights", "full"]


def commands():
    lines = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("frostbench ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_and_options_that_are_named_exist(page):
    """Every `frostbench COMMAND [SUBCOMMAND] --option` of a page, in a block or within a sentence."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    root = get_command(app)
    wrong = []
    for line in re.findall(r"(?:^\s*|`|\$ )frostbench ([a-z][^`\n#]*)", text, re.MULTILINE):
        words = line.split()
        command = root.commands.get(words[0])
        if isinstance(command, TyperGroup) and len(words) > 1:
            command = command.commands.get(words[1]) if words[1].isalpha() and words[1].islower() else command
        known = {name for one in getattr(command, "params", ()) for name in (*one.opts, *one.secondary_opts)}
        options = {word.partition("=")[0].rstrip(".,;)") for word in words if re.match("--[a-z]", word)}
        if command is None or not options <= known | {"--help", "--version"}:
            wrong.append(line)
    assert wrong == []


def test_commands_of_the_readme_name_options_that_exist():
    assert len(commands()) >= 6
    for line in commands():
        words = shlex.split(line)[1:]
        name = words[:2] if words[0] in ("bench", "cache", "inspect", "views") else words[:1]
        run = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "200"})
        assert run.exit_code == 0, run.output
        for option in (word for word in words if word.startswith("--")):
            assert option in run.stdout, f"{option} of `{line}`"


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("heads", "heads_at_defaults.md"),
        ("layers", "heads_at_defaults.md"),
        ("tuned", "heads.md"),
        ("tuned_layers", "heads.md"),
    ],
)
def test_benches_behind_the_results_are_valid(name, page):
    text = (ROOT / "docs" / "results" / "benches" / f"{name}.yaml").read_text(encoding="utf-8")
    rows = expand(parse(BenchSpec, yaml.safe_load(text)))
    assert len(rows[0].specs) == 5
    told = (ROOT / "docs" / "results" / page).read_text(encoding="utf-8")
    assert [row.row for row in rows if f"\n{row.row} " not in told] == []
