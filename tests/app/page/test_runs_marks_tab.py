"""Names, tags, stars, pins, trash, loading into Train and CSV in the tab Runs, in a browser."""

import csv
from pathlib import Path

import pytest
from driving import LONG
from playwright.sync_api import expect

from frostbench.benchmarks.speed.many_runs import write_many_runs

pytestmark = pytest.mark.slow
EVIL = "<img src=x onerror=window.hacked=1>"


def row(page, text):
    return page.locator(".runs tbody tr:not(.space)", has_text=text)


def goto(page, path):
    page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path)
    page.locator("main[data-state=ready]").wait_for(timeout=LONG)


def reload(page):
    page.reload()
    page.locator("main[data-state=ready]").wait_for(timeout=LONG)


def test_a_setting_is_renamed_with_the_keyboard_and_named_everywhere(open_runs):
    page = open_runs("runs")
    old = page.locator("button.name").first.inner_text()
    page.get_by_role("button", name=f"Rename {old}", exact=True).press("Enter")
    field = page.get_by_label("New name of")
    expect(field).to_be_focused()
    field.fill("not this")
    field.press("Escape")
    expect(page.locator("button.name", has_text="not this")).to_have_count(0)
    expect(page.get_by_role("button", name=f"Rename {old}", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    field.fill(EVIL)
    field.press("Enter")
    expect(page.get_by_role("button", name=f"Rename {EVIL}", exact=True)).to_be_focused()
    expect(page.locator("#live")).to_contain_text(f"Named {EVIL}.")
    reload(page)
    expect(row(page, EVIL)).to_have_count(1)
    goto(page, "/compare")
    expect(page.get_by_label("Setting A").locator("option", has_text=EVIL)).to_have_count(1)
    goto(page, "/runs")
    row(page, EVIL).get_by_role("button", name="Rename").click()
    page.get_by_label("New name of").fill("")
    page.get_by_label("New name of").press("Enter")
    expect(page.get_by_role("button", name=f"Rename {old}", exact=True)).to_be_visible()
    assert page.evaluate("window.hacked") is None


def test_stars_and_tags_filter_the_list_and_are_in_the_address(open_runs):
    page = open_runs("runs")
    row(page, "ridge").get_by_role("button", name="Star").click()
    page.get_by_role("button", name="★ starred").click()
    expect(page.get_by_text("1 setting of 4")).to_be_visible()
    assert "star=1" in page.url
    page.get_by_role("button", name="★ starred").click()
    page.get_by_label("Choose ridge").check()
    page.get_by_label("Choose lda").check()
    page.get_by_label("Tag for the chosen settings").fill("closed form")
    page.get_by_label("Tag for the chosen settings").press("Enter")
    expect(page.locator("#live")).to_contain_text("2 settings tagged closed form.")
    page.get_by_role("group", name="Only settings with").get_by_role("button", name="closed form").click()
    expect(page.get_by_text("2 settings of 4")).to_be_visible()
    reload(page)
    expect(page.get_by_text("2 settings of 4")).to_be_visible()
    expect(page.get_by_role("button", name="closed form", pressed=True)).to_be_visible()


def test_the_dialog_keeps_name_tags_and_note(open_runs):
    page = open_runs("runs")
    row(page, "smoothing").get_by_role("button", name="More about").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_be_focused()
    expect(dialog.get_by_role("row", name="Label smoothing ε")).to_contain_text("0.3")
    dialog.get_by_label("Tags").fill("draft, =SUM(A1)")
    dialog.get_by_label("Note").fill("softer labels")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(row(page, "smoothing").get_by_role("img", name="has a note")).to_be_visible()
    page.get_by_label("Find settings").fill("softer")
    expect(page.get_by_text("1 setting of 4")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    with Path(download.value.path()).open(newline="", encoding="utf-8") as file:
        (line,) = csv.DictReader(file)
    assert (line["note"], line["tags"]) == ("softer labels", "'=SUM(A1), draft")
    assert "Label smoothing ε: 0 → 0.3" in line["options"]
    assert 0 <= float(line["macro_f1_fg"]) <= 1


def test_pinned_settings_are_the_sides_of_compare(open_runs):
    page = open_runs("runs")
    row(page, "lda").get_by_role("button", name="Pin as A").click()
    row(page, "smoothing").get_by_role("button", name="Pin as B").click()
    expect(page.get_by_role("link", name="Compare A and B")).to_be_visible()
    goto(page, "/compare")
    sides = [page.get_by_label(f"Setting {side}").locator("option:checked").inner_text() for side in "AB"]
    assert sides[0].startswith("lda")
    assert "smoothing" in sides[1]
    goto(page, "/runs")
    expect(row(page, "lda").get_by_role("button", name="Pin as A")).to_have_attribute("aria-pressed", "true")
    row(page, "smoothing").get_by_role("button", name="Pin as B").click()
    expect(page.get_by_role("link", name="Compare A and B")).to_have_count(0)


def test_settings_are_loaded_into_train(open_runs):
    page = open_runs("runs")
    row(page, "smoothing").get_by_role("button", name="Pin as A").click()
    page.get_by_label("Choose ridge").check()
    page.get_by_role("button", name="Load into Train").click()
    page.wait_for_url("**/train?**")
    page.locator("main[data-state=ready]").wait_for(timeout=LONG)
    expect(page.locator("section.run[data-state=ready]")).to_be_visible(timeout=LONG)
    expect(page.locator(".plan")).to_contain_text("A: 2 runs, all there already")
    expect(page.locator(".plan")).to_contain_text("B: 2 runs, all there already")
    assert "b=ridge" in page.url


def test_deleting_can_be_undone_and_the_trash_emptied(open_runs):
    page = open_runs("runs")
    row(page, "lda").get_by_role("button", name="More about").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete …").click()
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    expect(page.get_by_text("3 settings of 3")).to_be_visible()
    expect(page.get_by_role("button", name="Trash: 2 runs")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_text("4 settings of 4")).to_be_visible()
    expect(page.locator("#live")).to_contain_text("2 runs put back.")
    page.get_by_label("Choose lda").check()
    page.get_by_role("button", name="Move 1 chosen setting to the trash").click()
    page.get_by_role("button", name="Trash: 2 runs").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 2 runs for good").click()
    expect(page.get_by_text("2 runs deleted.").first).to_be_visible()
    expect(page.get_by_role("button", name="Trash")).to_be_hidden()
    reload(page)
    expect(page.get_by_text("3 settings of 3")).to_be_visible()


def test_a_phone_shows_the_dialog_without_overflow(open_runs):
    page = open_runs("runs", width=400)
    row(page, "smoothing").get_by_role("button", name="More about").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    box = page.get_by_role("dialog").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_damaged_record_is_named_and_the_other_settings_are_shown(server, browse):
    write_many_runs(server.store, 3)
    record = server.store / "runs" / "many-00001" / "record.json"
    record.write_text("{")
    (server.store / "names.json").write_text("[]")
    page = browse("runs")
    expect(page.get_by_text("2 settings of 2")).to_be_visible()
    expect(page.get_by_text("2 files could not be read")).to_be_visible()
    lines = page.locator(".problems li")
    expect(lines.first).to_contain_text("many-00001/record.json must be a record of format 1")
    expect(lines.last).to_contain_text("names.json is damaged")
