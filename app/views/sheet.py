"""The style sheet of all views; it imports none of them, so that a page can start before it compares."""

from importlib import resources


def stylesheet() -> str:
    """The CSS of all views, to be put on the page once."""
    return (resources.files("frostbench.app.views") / "views.css").read_text("utf-8")
