"""The path from a form to a downloaded head, on one page whose sides are trained once for all tests."""

import re
import zipfile

import pytest
from driving import LONG, SHORT, choose, fill, preset, settled, state
from playwright.sync_api import expect

# One process runs all of these tests, so that the sides are trained only once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("trained")]
COMMA = 'digit 1, "thin"'
EVIL = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def trained(open_shared):
    """The page after A and B were trained, and the number of differences that it showed after each change of B."""
    page = open_shared()
    for side in "AB":
        choose(page, f"{side}: Cache", "digits")
        preset(page, side, "plain")
        fill(page, side, SHORT)
    difference = page.get_by_test_id("diff")
    differences = [difference.get_attribute("data-n")]
    page.get_by_label("B: Long-tail logit adjustment").check()
    settled(page)
    differences.append(difference.get_attribute("data-n"))
    choose(page, "B: Cache", "copy")
    differences.append(difference.get_attribute("data-n"))
    page.get_by_role("button", name="Train A and B, then compare").click()
    for part in ("job-A", "job-B", "compare"):
        state(page, part, "done")
    yield page, differences
    assert page.evaluate("window.hacked") is None


@pytest.fixture
def page(trained):
    return trained[0]


def test_every_change_of_b_counts_as_a_difference(trained):
    page, differences = trained
    assert differences == ["0", "1", "2"]
    expect(page.get_by_label("B: Logit adjustment: strength τ", exact=True)).to_have_value("1")


def test_trained_sides_are_compared_on_validation_rows(page):
    verdict = page.get_by_test_id("verdict")
    expect(verdict).to_have_attribute("data-state", re.compile("^(a-better|b-better|cannot-tell)$"))
    expect(verdict).to_contain_text(re.compile("B is better|A is better|Can’t tell"))
    expect(verdict).to_have_attribute("data-role", "select")
    for part in ("delta-table", "per-class", "confusion-change", "reliability"):
        expect(page.get_by_test_id(part).first).to_be_visible()
    expect(page.get_by_test_id("per-class").get_by_title(EVIL, exact=True)).to_be_visible()


def test_test_rows_are_revealed_after_a_confirmation_and_counted(page):
    verdict = page.get_by_test_id("verdict")
    page.get_by_role("button", name="Reveal the test rows…").click()
    expect(verdict).to_have_attribute("data-role", "select")
    page.get_by_role("button", name="Confirm: reveal the test rows").click()
    expect(verdict).to_have_attribute("data-role", "test", timeout=LONG)
    expect(page.get_by_test_id("looked")).to_have_attribute("data-n", "1")
    page.get_by_role("button", name="Back to validation").click()
    expect(verdict).to_have_attribute("data-role", "select", timeout=LONG)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [("none.png", b"", "the file is empty"), ("x.HEIC", b"\0\0\0\x18ftypheic", "is HEIC")],
)
def test_a_file_that_is_not_an_image_is_reported(page, name, content, reason):
    file = {"name": name, "mimeType": "image/png", "buffer": content}
    page.locator("#try-image input[type=file]").set_input_files(file)
    expect(page.get_by_test_id("image")).to_contain_text(f"{name}: {reason}", timeout=LONG)
    expect(page.get_by_test_id("try")).to_have_attribute("data-state", "empty", timeout=LONG)


def test_a_dropped_image_is_predicted(page):
    page.evaluate(
        """() => new Promise(done => { const drawn = document.createElement("canvas");
        drawn.toBlob(blob => { const carried = new DataTransfer();
            carried.items.add(new File([blob], "dropped.png", {type: "image/png"}));
            document.querySelector("#try-image .fp-drop").dispatchEvent(
                new DragEvent("drop", {dataTransfer: carried, bubbles: true}));
            done(); }); })"""
    )
    expect(page.get_by_test_id("image")).to_contain_text("dropped.png", timeout=LONG)
    state(page, "answer-A", "done")


def test_the_temperature_changes_the_probabilities_of_an_image(page, digits):
    image = next((digits / "images" / COMMA).glob("*.png"))
    page.locator("#try-image input[type=file]").set_input_files(image)
    expect(page.get_by_test_id("image")).to_contain_text(image.name, timeout=LONG)
    state(page, "answer-A", "done")
    before = page.get_by_test_id("answer-A").inner_text()
    page.get_by_label("number input for Temperature").fill("4")
    page.get_by_label("number input for Temperature").press("Tab")
    expect(page.get_by_test_id("answer-A")).not_to_have_text(before, timeout=LONG)


def test_the_head_of_a_side_can_be_downloaded(page, tmp_path):
    from frostbench.heads.bundle.export import load

    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download head B").click()
    waiting.value.save_as(tmp_path / "head.zip")
    with zipfile.ZipFile(tmp_path / "head.zip") as packed:
        packed.extractall(tmp_path / "unpacked")
    head = load(tmp_path / "unpacked" / "head").head
    assert set(head.class_names) == {"digit 0", COMMA, EVIL}
