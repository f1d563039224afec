"""Checks that every HTML report with a section of validation rows and one of test rows must pass."""

import re

from pages import Page


def check_report(html):
    page = Page(html)
    assert (page.wrong, page.open) == ([], [])
    assert not {"script", "link", "iframe", "img", "object", "base"} & {tag for tag, _ in page.tags}
    assert not [attrs for _, attrs in page.tags if {"src", "href", "srcset", "onerror"} & set(attrs)]
    assert not re.search(r"url\(|@import|\bnan\b", html)
    # Names are escaped.
    assert "<script>" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;img onerror=alert(1)&gt;" in html
    select, test = html.split("<section>")[1:3]
    assert "These are the test rows." not in select
    assert "These are the test rows." in test
    # Tables scroll and have headers.
    regions = [attrs for tag, attrs in page.tags if attrs.get("class") == "scroll"]
    assert sum(tag == "table" for tag, _ in page.tags) == len(regions)
    assert all(attrs.get("aria-label") and attrs.get("tabindex") == "0" for attrs in regions)
    assert all(attrs.get("scope") in ("row", "col") for tag, attrs in page.tags if tag == "th")
