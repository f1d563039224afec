"""The tab Data in a browser: what is found, chosen and corrected."""

import csv
import shutil

import pytest
from driving import LONG
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

WRONG = {"digit 0": "digit 1", "digit 1": "digit 0"}


@pytest.fixture(scope="module")
def server(mislabelled, serve, tmp_path_factory):
    """A server for the tests of this module."""
    folder = tmp_path_factory.mktemp("data_tab")
    shutil.copytree(mislabelled, folder / "wrong")
    with serve(folder) as started:
        yield started


@pytest.fixture
def page(server, browse):
    """The tab with labels to check, which nobody has checked."""
    (server.folder / "wrong.labels.csv").unlink(missing_ok=True)
    return opened(browse, "data?cache=wrong")


def opened(browse, query, width=1366):
    page = browse(query, width)
    expect(page.locator("main[data-checks=ready]")).to_be_visible(timeout=LONG)
    expect(page.locator(".map[data-state=ready]")).to_be_visible(timeout=LONG)
    return page


def tile(page, title):
    return page.locator(f"[data-tile='{title}'] .value").inner_text()


def lines(server):
    with (server.folder / "wrong.labels.csv").open(newline="") as file:
        return [(line["id"], line["old"], line["new"], line["who"]) for line in csv.DictReader(file)]


def asked(page):
    """The label and the suggestion of the question, and the image's file name."""
    said = page.locator(".checking .ask p b").all_inner_texts()
    return said[0], said[1], page.locator(".checking .large .picture").get_attribute("alt")


def test_the_tiles_say_what_was_found(page):
    assert (tile(page, "Images"), tile(page, "Classes"), tile(page, "Groups")) == ("150", "3", "none")
    assert int(tile(page, "Labels to check")) >= 6
    assert tile(page, "Near-copies across the split").isdigit()


def test_wrong_labels_come_first_with_the_right_suggestion(page):
    page.get_by_role("button", name="Check them").click()
    seen = set()
    for _ in range(6):
        label, suggested, image = asked(page)
        seen.add(image)
        assert WRONG[label] == suggested == f"digit {image.split('really ')[1][0]}"
        page.keyboard.press("u")
    expect(page.locator("#live")).to_have_text("Comes back at the end.")
    assert len(seen) == 6


def test_labels_are_corrected_with_keys_and_taken_back(page, server):
    before = int(tile(page, "Labels to check"))
    page.get_by_label("Your name").fill("Ana")
    page.get_by_label("Your name").press("Enter")
    page.get_by_role("button", name="Check them").click()
    label, suggested, image = asked(page)
    page.keyboard.press("c")
    expect(page.locator("#live")).to_have_text(f"1 image: {suggested}")
    assert lines(server) == [(image, label, suggested, "Ana")]
    expect(page.locator("[data-tile='Labels to check']")).to_contain_text("1 label checked")
    assert int(tile(page, "Labels to check")) < before
    assert asked(page)[2] != image
    page.keyboard.press("z")
    expect(page.locator("#live")).to_have_text(f"1 image: {label}")
    assert lines(server)[1] == (image, suggested, label, "Ana")
    assert asked(page)[2] == image
    page.keyboard.press("x")
    expect(page.locator("#live")).to_have_text("1 image: left out")
    assert lines(server)[2] == (image, label, "", "Ana")
    expect(page.get_by_text("1 label checked, 1 changed (1 left out), in wrong.labels.csv.")).to_be_visible()


def test_checked_labels_stay_checked(page, server):
    page.get_by_role("button", name="Check them").click()
    label, _, image = asked(page)
    page.keyboard.press("k")
    expect(page.locator("#live")).to_have_text(f"1 image: {label}")
    assert lines(server) == [(image, label, label, "")]
    page.reload()
    expect(page.locator("main[data-checks=ready]")).to_be_visible(timeout=LONG)
    assert asked(page)[2] != image
    expect(page.locator("[data-tile='Labels to check']")).to_contain_text("1 label checked")


def test_another_or_a_new_class_can_be_given(page, server):
    page.get_by_role("button", name="Check them").click()
    page.keyboard.press("o")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.type("letter O")
    expect(dialog.get_by_role("button", name="New class: letter O")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#live")).to_have_text("1 image: letter O")
    assert lines(server)[0][2] == "letter O"
    assert tile(page, "Classes") == "4"
    expect(page.locator(".classes").get_by_role("button", name="letter O")).to_be_visible()


def test_one_kind_of_confusion_can_be_checked(page):
    page.get_by_label("Which labels").select_option(label="digit 0 that look like digit 1: 3")
    assert asked(page)[:2] == ("digit 0", "digit 1")
    expect(page.locator(".checking .chip").first).to_have_text("3 left")


def test_a_class_leads_to_its_images(page):
    page.locator(".classes").get_by_role("button", name="digit 8").click()
    chosen = page.get_by_role("region", name="Chosen images")
    expect(chosen.get_by_role("heading")).to_have_text("digit 8: 50 images")
    expect(chosen.locator("img")).to_have_count(50)
    chosen.locator("button:has(img)").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Labelled digit 8")
    expect(dialog.locator(".nearest img")).to_have_count(6)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_pictures_are_shown(page):
    page.wait_for_function(
        "() => [...document.querySelectorAll('.queue img, .film img')].every(image => image.naturalWidth > 0)"
    )
    assert page.locator(".missing").count() == 0


def test_an_image_without_a_picture_says_why(page):
    page.evaluate(
        """async () => {
            const { picture } = await import("/frostbench/static/shared/pictures.js");
            document.querySelector(".head").append(picture("wrong", "none.png"));
        }"""
    )
    reason = "The cache has no image 'none.png'. Reload the page."
    expect(page.locator(".head .missing")).to_have_attribute("title", reason)
    expect(page.get_by_role("img", name=f"none.png: no picture. {reason}")).to_be_visible()


def test_a_lasso_chooses_images_whose_labels_change_together(page, server):
    page.get_by_role("button", name="Lasso").click()
    box = page.locator(".map canvas").bounding_box()
    corners = [(2, 2), (box["width"] - 2, 2), (box["width"] - 2, box["height"] - 2), (2, box["height"] - 2), (2, 3)]
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    for x, y in corners:
        page.mouse.move(box["x"] + x, box["y"] + y, steps=3)
    page.mouse.up()
    chosen = page.get_by_role("region", name="Chosen images")
    expect(chosen.get_by_role("heading")).to_have_text("Inside the lasso: 150 images")
    chosen.get_by_role("button", name="Change label").click()
    page.get_by_role("dialog").get_by_role("button", name="digit 8").click()
    expect(page.locator("#live")).to_have_text("150 images: digit 8")
    assert {line[2] for line in lines(server)} == {"digit 8"}
    assert len(lines(server)) == 150


def test_a_point_shows_its_image(page):
    page.locator(".map").scroll_into_view_if_needed()
    box = page.locator(".map canvas").bounding_box()
    for step in range(400):
        page.mouse.move(
            box["x"] + 20 + 17 * step % (box["width"] - 40), box["y"] + 20 + 29 * step % (box["height"] - 40)
        )
        if page.locator(".tip").is_visible():
            break
    expect(page.locator(".tip img")).to_be_visible()
    expect(page.locator(".tip b")).to_contain_text("digit")


def test_points_are_found_by_place_and_by_polygon(page):
    found = page.evaluate(
        """async () => {
            const { finder, inside } = await import("/frostbench/static/data/points.js");
            const xy = new Float32Array(2000);
            let seed = 7;
            const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
            for (let i = 0; i < 2000; i++) xy[i] = 100 * random();
            const find = finder(xy), wrong = [];
            const distance = (i, x, y) => Math.hypot(xy[2 * i] - x, xy[2 * i + 1] - y);
            for (let t = 0; t < 300; t++) {
                const [x, y] = [110 * random() - 5, 110 * random() - 5];
                let best = -1, least = 3;
                for (let i = 0; i < 1000; i++) if (distance(i, x, y) <= least) { best = i; least = distance(i, x, y); }
                if (find(x, y, 3) !== best) wrong.push([x, y]);
            }
            const triangle = [[0, 0], [60, 0], [0, 60]];
            const within = inside(xy, triangle), really = [];
            for (let i = 0; i < 1000; i++) if (xy[2 * i] + xy[2 * i + 1] < 60) really.push(i);
            return { wrong, same: within.join() === really.join(), size: really.length };
        }"""
    )
    assert (found["wrong"], found["same"]) == ([], True)
    assert found["size"] > 100


def test_hostile_names_stay_text(look):
    page = opened(look, "data?cache=digits")
    assert page.evaluate("window.hacked") is None
    expect(page.locator(".classes").get_by_role("button", name="<img src=x")).to_be_visible()


def test_another_data_set_has_its_own_address(look):
    page = opened(look, "data?cache=digits")
    page.get_by_label("Data set").select_option("copy")
    expect(page.locator("h1")).to_have_text("copy")
    assert "cache=copy" in page.url
    page.go_back()
    expect(page.locator("h1")).to_have_text("digits")


def test_a_cache_that_is_gone_is_told(look):
    page = look("data?cache=gone")
    expect(page.get_by_role("alert")).to_contain_text("There is no finished cache gone here")


def test_nothing_overflows_on_a_phone(look):
    page = opened(look, "data?cache=digits", width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
