"""Images without a label in a browser: the queue of what to label next, and where else they are shown."""

import csv
import shutil
from dataclasses import replace

import pytest
from driving import LONG
from playwright.sync_api import expect

from frostbench.embedcache.storage.listing import read_items, write_items
from frostbench.embedcache.storage.store import write_manifest

pytestmark = pytest.mark.slow

LABELLED = 15
"""Labelled images of each class; 105 of 150 have no label."""


@pytest.fixture(scope="module")
def server(mislabelled, serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("label_next")
    cache, seen, items = shutil.copytree(mislabelled, folder / "new"), {}, []
    for item in read_items(cache):
        digit = item.id.split("really ")[1][0]
        seen[digit] = seen.get(digit, 0) + 1
        items.append(replace(item, label=f"digit {digit}" if seen[digit] <= LABELLED else ""))
    write_items(cache, items)
    write_manifest(cache)
    with serve(folder) as started:
        yield started


@pytest.fixture
def page(server, browse):
    (server.folder / "new.labels.csv").unlink(missing_ok=True)
    page = browse("data?cache=new", 1366)
    expect(page.locator("main[data-checks=ready]")).to_be_visible(timeout=LONG)
    page.get_by_role("button", name="Label them").click()
    expect(page.locator(".checking[data-next=ready]")).to_be_visible(timeout=LONG)
    return page


def lines(server):
    with (server.folder / "new.labels.csv").open(newline="") as file:
        return [(line["id"], line["old"], line["new"]) for line in csv.DictReader(file)]


def image(page):
    return page.locator(".checking .large .picture").get_attribute("alt")


def test_images_without_a_label_are_counted_and_asked_for(page):
    expect(page.locator("[data-tile='Images']")).to_contain_text("105 without a label; all files could be read")
    expect(page.get_by_label("Which labels")).to_have_value("next")
    expect(page.get_by_role("heading", name="Label these next")).to_be_visible()
    expect(page.locator(".checking .chip").first).to_have_text("105 left")
    expect(page.locator(".checking .ask")).to_contain_text("No label yet. The labelled images say digit")
    expect(page.get_by_role("button", name="Keep")).to_have_count(0)


def test_keys_label_leave_out_put_off_and_take_back(page, server):
    first, suggested = image(page), page.locator(".checking .ask p b").inner_text()
    page.keyboard.press("c")
    expect(page.locator("#live")).to_have_text(f"1 image: {suggested}")
    assert lines(server) == [(first, "", suggested)]
    expect(page.locator(".checking .chip").first).to_have_text("104 left")
    assert image(page) != first
    page.keyboard.press("z")
    expect(page.locator(".checking .chip").first).to_have_text("105 left")
    assert lines(server)[-1] == (first, suggested, "")
    assert image(page) == first
    page.keyboard.press("u")
    expect(page.locator("#live")).to_have_text("Comes back at the end.")
    second = image(page)
    assert second != first
    page.keyboard.press("x")
    expect(page.locator("#live")).to_have_text("1 image: left out")
    assert lines(server)[-1] == (second, "", "")
    third = image(page)
    page.keyboard.press("k")
    page.keyboard.press("o")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.type("digit 8")
    page.keyboard.press("Enter")
    expect(page.locator("#live")).to_have_text("1 image: digit 8")
    assert lines(server)[-1] == (third, "", "digit 8")


def test_suggestions_are_mostly_right_and_labels_to_check_stay_apart(page):
    right = 0
    for _ in range(10):
        said, name = page.locator(".checking .ask p b").inner_text(), image(page)
        right += said == f"digit {name.split('really ')[1][0]}"
        page.keyboard.press("c")
        expect(page.locator(".checking .large .picture")).not_to_have_attribute("alt", name)
    assert right >= 6
    page.get_by_label("Which labels").select_option("")
    expect(page.locator(".checking header p")).to_contain_text("The label and the images around it disagree.")


def test_images_finds_those_without_a_label(server, browse):
    (server.folder / "new.labels.csv").unlink(missing_ok=True)
    page = browse("images?cache=new&show=none", 1366)
    expect(page.locator("main[data-state=ready]")).to_be_visible(timeout=LONG)
    expect(page.locator(".found")).to_have_text("105 images of 150")
    expect(page.locator("[role=option]").first).to_contain_text("no label")
