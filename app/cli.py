"""The `frostbench` command."""

import sys
from typing import Annotated

import typer

from frostbench.app.commands import app as page
from frostbench.app.commands import (
    backbones,
    bench,
    cache,
    calibration,
    demo,
    embed,
    inspect,
    options,
    predict,
    texts,
    train,
    views,
)
from frostbench.app.streams import accept_all_characters

app = typer.Typer(
    name="frostbench",
    help="Train and compare classifiers on frozen image embeddings.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from frostbench import __version__

        print(f"frostbench {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train and compare classifiers on frozen image embeddings."""


app.command("embed")(embed.embed)
app.command("backbones")(backbones.backbones)
app.command("train")(train.train)
app.add_typer(bench.app, name="bench")
app.command("compare")(bench.compare)
app.command("calibration")(calibration.calibration)
app.command("export")(bench.export)
app.command("predict")(predict.predict)
app.add_typer(cache.app, name="cache")
app.add_typer(inspect.app, name="inspect")
app.add_typer(views.app, name="views")
app.command("texts")(texts.texts)
app.command("app")(page.app)
app.command("options")(options.options)
app.command("demo")(demo.demo)


def main() -> None:
    """Run the command line. Errors the user can fix are printed as one message, without a traceback."""
    accept_all_characters()
    try:
        app()
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"frostbench: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
