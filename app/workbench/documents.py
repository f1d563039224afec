"""The HTML documents of the tabs: the same bar, and the script of the tab."""

from html import escape

TABS = {
    "Data": "/data",
    "Train": "/train",
    "Runs": "/runs",
    "Compare": "/compare",
    "Images": "/images",
    "Predict": "/predict",
    "Export": "/export",
}
"""Address of each tab."""
_ICON = (
    '<svg width="20" height="20" viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.6" '
    'stroke-linecap="round" aria-hidden="true"><path d="M10 1v18M2.2 5.5l15.6 9M17.8 5.5l-15.6 9M7.6 2.6 10 5l2.4-2.4'
    'M7.6 17.4 10 15l2.4 2.4"/></svg>'
)


def document(tab: str, token: str) -> str:
    """Return the document of a tab; its script and style sheet are in static/NAME, and the token is in a meta tag."""
    name = tab.lower()
    links = "".join(
        f'<a href="{address}"{" aria-current=page" if title == tab else ""}>{title}</a>'
        for title, address in TABS.items()
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(tab)} · Frostbench</title><meta name="frostbench-token" content="{escape(token)}">
<script>document.documentElement.dataset.theme = localStorage.getItem("frostbench_theme")
  || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")</script>
<link rel="stylesheet" href="/frostbench/static/shared/shell.css">
<link rel="stylesheet" href="/frostbench/static/{name}/{name}.css"><link rel="icon" href="data:,">
<script type="module" src="/frostbench/static/shared/bar.js"></script>
<script type="module" src="/frostbench/static/{name}/{name}.js"></script></head>
<body><a class="skip" href="#main">Skip to the content</a>
<header class="top"><div class="in"><a class="brand" href="/">{_ICON} Frostbench</a>
<nav class="tabs" aria-label="Tabs">{links}</nav>
<span class="grow"></span><a id="photos-pill" class="chip job" href="/data?add=1" hidden></a>
<a id="job-pill" class="chip job" href="/train#jobs" hidden></a>
<button id="theme" class="icon" type="button" aria-label="Switch between light and dark">◐</button></div></header>
<div id="alert" class="alert" role="alert" hidden></div><div id="live" class="hidden" aria-live="polite"></div>
<main id="main" data-state="loading"><div class="head"><h1>{escape(tab)}</h1></div></main></body></html>
"""
