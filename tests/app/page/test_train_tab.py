"""The tab Train in a browser: options, errors at their field, undo, the address, and jobs."""

import pytest
from driving import LONG
from playwright.sync_api import expect

from frostbench.embedcache.labels.corrections import Correction, add_corrections
from frostbench.embedcache.table import read_table

pytestmark = pytest.mark.slow
LR, EPOCHS = "Learning rate", "Epochs"


def opened(look, query="train", width=1366):
    page = look(query, width)
    checked(page)
    return page


def checked(page):
    expect(page.locator("main[data-check=ready]")).to_be_visible(timeout=LONG)


def control(page, label):
    """Return the field of an option; two kinds of a part may have options of the same title, of which one is there."""
    return page.locator(f".option:not([hidden]) [aria-label='{label}']")


def put(page, label, value):
    control(page, label).fill(value)
    page.locator("section.run:not([data-state=asking])").wait_for(timeout=LONG)


def test_an_error_is_at_its_field_and_disables_training_with_the_reason(look):
    page = opened(look, "train?a=plain&b=plain")
    button = page.get_by_role("button", name="Train A and B")
    expect(button).to_be_enabled(timeout=LONG)
    field = control(page, f"B: {LR}")
    put(page, f"B: {LR}", "-5")
    expect(field).to_have_attribute("aria-invalid", "true", timeout=LONG)
    expect(page.locator("[data-row='train.optim<adamw>.lr'] .side-B .error")).to_have_text(
        "This must be greater than 0, and -5 is not. Enter a larger number, such as 0.003."
    )
    expect(button).to_be_disabled()
    expect(page.locator("#reason")).to_contain_text("Side B cannot be trained: Learning rate: This must be greater")
    put(page, f"B: {LR}", "0.01")
    expect(field).not_to_have_attribute("aria-invalid", "true", timeout=LONG)
    expect(button).to_be_enabled(timeout=LONG)


def test_changes_of_b_are_listed_tinted_and_taken_back_one_by_one(look):
    page = opened(look, "train?a=plain&b=plain")
    expect(page.locator("#changes-title")).to_have_text("A and B are equal")
    put(page, f"B: {LR}", "0.01")
    put(page, f"B: {EPOCHS}", "7")
    expect(page.locator("#changes-title")).to_have_text("B changes 2 settings")
    expect(page.locator("[data-row='train.schedule.epochs']")).to_have_class("option differs")
    page.get_by_role("button", name=f"Undo {EPOCHS}").click()
    expect(page.locator("#changes-title")).to_have_text("B changes 1 setting")
    expect(control(page, f"B: {EPOCHS}")).to_have_value("50")
    page.get_by_role("button", name="Undo: “Epochs” of B taken back").click()
    expect(control(page, f"B: {EPOCHS}")).to_have_value("7")


def test_presets_and_copying_are_undone(look):
    page = opened(look, "train?a=plain&b=plain")
    page.get_by_label("B: preset").select_option("full")
    expect(page.locator("#changes-title")).to_contain_text("B changes")
    page.get_by_role("button", name="Copy A to B").click()
    expect(page.locator("#changes-title")).to_have_text("A and B are equal")
    page.get_by_role("button", name="Undo: A copied to B").click()
    expect(page.get_by_label("B: preset")).to_have_value("full")
    page.get_by_role("button", name="Undo: preset full on B").click()
    expect(page.get_by_label("B: preset")).to_have_value("plain")


def test_the_form_is_in_the_address_and_survives_a_reload(look):
    page = opened(look, "train?a=plain&b=plain&b.head.body.kind=mlp&b.head.body.hidden=64&seeds=2")
    expect(page.get_by_label("B: MLP: widths of the hidden layers", exact=True)).to_have_value("64")
    expect(page.get_by_label("Seeds", exact=True)).to_have_value("2")
    put(page, f"A: {LR}", "0.02")
    assert "a.train.optim.lr=0.02" in page.url
    page.reload()
    checked(page)
    expect(control(page, f"A: {LR}")).to_have_value("0.02")
    expect(page.get_by_label("B: Body", exact=True)).to_have_value("mlp")


def test_supcon_on_and_off_leaves_the_form_as_it_was(look):
    page = opened(look, "train?a=plain&b=plain")
    page.get_by_role("switch", name="B: SupCon").check()
    expect(page.get_by_label("B: Body", exact=True)).to_have_value("mlp", timeout=LONG)
    expect(page.locator("[data-method=SupCon]")).to_have_class("option differs")
    page.get_by_role("switch", name="B: SupCon").uncheck()
    expect(page.get_by_label("B: Body", exact=True)).to_have_value("identity", timeout=LONG)
    expect(page.locator("#changes-title")).to_have_text("A and B are equal")


def test_settings_are_found_by_title_key_and_sentence(look):
    page = opened(look, "train?a=plain&b=plain")
    page.get_by_label("Find a setting").fill("loss.smoothing")
    expect(page.locator("[data-row='train.loss.smoothing.epsilon']")).to_be_visible()
    expect(page.locator("[data-row='train.optim<adamw>.lr']")).to_have_count(0)
    page.get_by_label("Find a setting").fill("no such thing")
    expect(page.get_by_text("No setting has “no such thing” in its title, key or sentence.")).to_be_visible()


def test_a_correction_that_does_nothing_says_so_with_its_figure(look):
    page = opened(look, "train?a=baseline&b=plain&a.train.loss.logit_adjustment.tau=1")
    expect(page.locator("[data-row='train.loss.logit_adjustment.tau'] .notes")).to_contain_text(
        "moves no logit relative to another by more than", timeout=LONG
    )


def test_auto_is_chosen_on_side_a(look):
    page = opened(look, "train?a=plain&b=plain")
    page.get_by_label("A: preset").select_option("auto")
    expect(page.locator("#changes-title")).to_have_text("B is compared with what auto chooses")
    expect(page.get_by_text("auto has to choose the settings first")).to_be_visible(timeout=LONG)
    expect(control(page, f"A: {LR}")).to_be_disabled()


def test_buttons_wait_for_the_values(untouched, chromium):
    context = chromium.new_context()
    page = context.new_page()
    held = []
    page.route("**/api/train-check", lambda route: held.append(route))
    page.goto(f"{untouched.url}train")
    button = page.get_by_role("button", name="Train A and B")
    expect(button).to_be_disabled(timeout=LONG)
    for route in held:
        route.continue_()
    page.unroute("**/api/train-check")
    expect(button).to_be_enabled(timeout=LONG)
    page.goto("about:blank")
    context.close()


def test_nothing_overflows_on_a_phone(look):
    page = opened(look, "train", width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_every_job_is_listed_and_cancelled_and_results_keep_their_own_words(browse):
    page = opened(
        browse, "train?a=plain&b=plain&seeds=1&b.train.schedule.epochs=100000&b.train.early_stop.patience=100000"
    )
    page.get_by_label("B alone").check()
    button = page.get_by_role("button", name="Train B alone")
    for epochs in ("100000", "99999", "99998"):
        put(page, f"B: {EPOCHS}", epochs)
        # The estimate is the last thing that is drawn, so nothing moves under the pointer any more.
        expect(page.locator("section.run[data-state=ready]")).to_contain_text("At most about", timeout=LONG)
        expect(page.locator("section.run pre")).to_contain_text(epochs)
        button.click()
        expect(page.locator("#jobs li", has_text=f"Epochs {epochs}")).to_be_visible(timeout=LONG)
    expect(page.locator("#jobs")).to_have_attribute("data-n", "3", timeout=LONG)
    expect(page.locator("#jobs li[data-state=running]", has_text="best macro F1")).to_be_visible(timeout=LONG)
    put(page, f"B: {EPOCHS}", "5")
    expect(page.locator("section.last")).to_contain_text("Epochs 99998")
    for epochs in ("99999", "99998", "100000"):
        page.locator("#jobs li", has_text=f"Epochs {epochs}").get_by_role("button").click()
        expect(page.locator("#jobs li[data-state=cancelled]", has_text=f"Epochs {epochs}")).to_be_visible(timeout=LONG)
    expect(page.locator("#jobs li", has_text="Epochs 100000")).to_contain_text("is kept")


def test_finished_jobs_lead_to_the_comparison(browse):
    page = opened(browse, "train?a=lda&b=ridge&seeds=2")
    button = page.get_by_role("button", name="Train A and B")
    expect(button).to_be_enabled(timeout=LONG)
    button.click()
    link = page.get_by_role("link", name="Compare A with B")
    expect(link).to_be_visible(timeout=LONG)
    address = link.get_attribute("href")
    assert address.startswith("/compare?store=results&a=")
    expect(page.get_by_text("2 runs, all there already").first).to_be_visible(timeout=LONG)
    page.reload()
    expect(link).to_have_attribute("href", address, timeout=LONG)


def test_checked_labels_are_used_when_asked(browse, server):
    page = opened(browse, "train?data=digits&a=plain&b=plain")
    expect(page.get_by_label("checked label")).to_be_hidden()
    table = read_table(server.folder / "digits", stored=True)
    line = Correction(str(table.ids[0]), table.class_names[table.labels[0]], "oak")
    add_corrections(server.folder / "digits.labels.csv", [line])
    page = opened(browse, "train?data=digits&a=plain&b=plain")
    page.get_by_label("with 1 checked label").check()
    checked(page)
    assert "labels=corrected" in page.url
    expect(page.locator("section.run pre")).to_contain_text("file: digits.labels.csv", timeout=LONG)
    page.reload()
    checked(page)
    expect(page.get_by_label("with 1 checked label")).to_be_checked()


def test_the_keyboard_keeps_its_place_when_parts_are_drawn_anew(look):
    page = opened(look, "train?a=plain&b=full")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.get_by_role("navigation", name="Sections").get_by_role("button", name="Head").press("Enter")
    checked(page)
    expect(page.get_by_role("navigation", name="Sections").get_by_role("button", name="Head")).to_be_focused()
    undo = page.locator(".changes li .btn")
    second = undo.nth(1).get_attribute("aria-label")
    undo.first.press("Enter")
    checked(page)
    expect(page.get_by_role("button", name=second, exact=True)).to_be_focused()
