"""The style sheet of all views; imports none of them, so that the page starts faster."""

from importlib import resources


def stylesheet() -> str:
    """Return the CSS of all views."""
    return (resources.files("frostbench.app.views") / "views.css").read_text("utf-8")
