"""Helpers to use the page in a browser; they wait for states of the page."""

from playwright.sync_api import expect

ENDLESS = {"Epochs": "100000", "Batch size": "1000", "Early stopping: patience (epochs)": "100000"}
SHORT = {"Epochs": "4", "Minimum steps": "0"}
LONG = 90_000
"""Timeout in milliseconds for a busy machine."""


def choose(page, label, option):
    page.get_by_label(label, exact=True).select_option(option)
    settled(page)


def preset(page, side, name):
    page.get_by_label(f"{side}: Preset").select_option(name)
    settled(page)


def fill(page, side, values):
    for label, value in values.items():
        page.get_by_label(f"{side}: {label}", exact=True).fill(value)
    settled(page)


def settled(page):
    """Wait for the server's reply to the last change."""
    expect(page.get_by_test_id("form")).to_have_attribute("data-state", "ready", timeout=LONG)


def state(page, what, wanted):
    expect(page.get_by_test_id(what)).to_have_attribute("data-state", wanted, timeout=LONG)


def epochs(page, side):
    return int(page.get_by_test_id(f"job-{side}").get_attribute("data-n"))


def comes_to(page, side, epoch):
    """Wait until a job has trained a number of epochs."""
    page.wait_for_function(
        "([side, n]) => +document.querySelector(`[data-testid=job-${side}]`)?.dataset.n >= n",
        arg=[side, epoch],
        timeout=LONG,
    )
