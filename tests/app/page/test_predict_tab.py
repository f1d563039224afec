"""The tab Predict in a browser: images in, classes, flags and counts out."""

import csv
import shutil

import pytest
from driving import LONG
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def new_images(open_runs, digits):
    """A folder of nine images of all classes and a broken one, below the folder of the page."""
    from pathlib import Path

    folder = Path(open_runs.folder) / "new"
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(sorted((digits / "images").iterdir())):
        for image in sorted(name.iterdir())[:3]:
            shutil.copy(image, folder / f"{number} {image.name}")
    (folder / "broken.png").write_bytes(b"no image")
    return folder


@pytest.fixture
def page(open_runs, new_images):
    return open_runs("predict")


@pytest.fixture
def unsure(page):
    """The page with a head of label smoothing, which is never quite sure."""
    page.get_by_label("Add a head").select_option(label=smoothed(page))
    page.get_by_role("button", name="Take").first.click()
    expect(page.locator(".heads ol li")).to_have_count(1)
    expect(page.locator(".heads ol li")).to_contain_text("Label smoothing")
    return page


def smoothed(page):
    (found,) = (text for text in page.locator("#add-head option").all_inner_texts() if "smoothing" in text)
    return found


def predicted(page):
    page.locator("main[data-state=done]").wait_for(timeout=LONG)


def from_folder(page, name="new"):
    page.get_by_label("Or a folder on the server’s disk").fill(name)
    page.get_by_role("button", name="Predict its images").click()
    predicted(page)


def test_a_folder_is_predicted_filtered_and_counted(page):
    expect(page.locator(".heads ol li")).to_have_count(1)
    from_folder(page)
    expect(page.locator(".shot")).to_have_count(10)
    expect(page.locator("[data-filter=unread]")).to_have_text("Not readable 1")
    page.locator("[data-filter=unread]").click()
    expect(page.locator(".shot")).to_have_count(1)
    expect(page.locator(".shot")).to_contain_text("broken.png")
    said = page.locator(".counts tbody tr td:nth-child(2)").all_inner_texts()
    assert sum(map(int, said)) == 9
    expect(page.locator("#live")).to_have_text("10 images predicted.")


def test_the_cut_marks_what_is_not_sure_and_says_what_it_does(unsure):
    page = unsure
    from_folder(page)
    page.get_by_label("Not sure below").fill("1")
    expect(page.locator("[data-filter=unsure]")).to_have_text("Not sure 9")
    expect(page.locator("#cut-said")).to_contain_text("On validation images 100 % are below it")
    page.get_by_label("Not sure below").fill("0")
    expect(page.locator("[data-filter=unsure]")).to_have_text("Not sure 0")
    expect(page.locator("#cut-said")).to_contain_text("On validation images 0 % are below it")


def test_several_heads_are_compared_and_the_address_keeps_them(page, open_runs):
    options = page.locator("#add-head option").all()
    page.get_by_label("Add a head").select_option(options[1].get_attribute("value"))
    from_folder(page)
    expect(page.locator(".shot").first.locator(".said")).to_have_count(2)
    expect(page.locator("[data-filter=disagree]")).to_be_visible()
    address = page.url
    again = open_runs(address.removeprefix(page.url.split("predict")[0]))
    expect(again.locator(".heads ol li")).to_have_count(2)
    again.get_by_role("button", name="Take").first.click()
    expect(again.locator(".heads ol li")).to_have_count(1)


def test_an_image_opens_with_its_classes_and_neighbours(page):
    from_folder(page)
    page.locator("button.shot").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    dialog = page.locator("dialog[data-state=ready]")
    expect(dialog).to_be_visible(timeout=LONG)
    expect(dialog.locator(".bars li")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_images_are_uploaded_and_a_bad_file_is_told(page, new_images):
    files = [*sorted(new_images.glob("[0-9]*"))[:3], new_images / "broken.png"]
    page.set_input_files("#files", files)
    predicted(page)
    expect(page.locator(".drop")).to_contain_text("3 images uploaded.")
    expect(page.locator(".drop .wrong")).to_contain_text("broken.png: is not an image in a supported format")
    expect(page.locator(".shot")).to_have_count(3)


def test_a_zip_file_is_predicted(page, new_images, tmp_path):
    packed = shutil.make_archive(str(tmp_path / "photos"), "zip", new_images)
    page.set_input_files("#files", packed)
    predicted(page)
    expect(page.locator(".drop")).to_contain_text("10 images uploaded.")
    expect(page.locator("[data-filter=unread]")).to_have_text("Not readable 1")


def test_a_temperature_moves_the_probabilities(unsure):
    page = unsure
    from_folder(page)
    before = page.locator(".said").all_inner_texts()
    page.get_by_label("Temperature").fill("4")
    page.wait_for_function(
        "before => document.querySelector('.said').innerText !== before", arg=before[0], timeout=LONG
    )
    page.get_by_label("Temperature").fill("1")
    page.wait_for_function(
        "before => document.querySelector('.said').innerText === before", arg=before[0], timeout=LONG
    )


def test_predictions_are_downloaded_as_csv(page, tmp_path):
    from_folder(page)
    with page.expect_download(timeout=LONG) as waiting:
        page.get_by_role("button", name="Download CSV").click()
    waiting.value.save_as(tmp_path / "predictions.csv")
    with (tmp_path / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    (broken,) = (row for row in rows if row["image"] == "broken.png")
    assert "not an image" in broken["error"]
    assert all(row["class"] for row in rows if row["image"] != "broken.png")


def test_a_folder_that_is_not_there_is_told(page):
    page.get_by_label("Or a folder on the server’s disk").fill("../elsewhere")
    page.get_by_role("button", name="Predict its images").click()
    expect(page.locator("#alert")).to_contain_text("is not a readable folder below")


def test_nothing_overflows_on_a_phone(open_runs, new_images):
    page = open_runs("predict", 400)
    from_folder(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_folder_without_heads_says_what_to_do(look):
    page = look("predict")
    expect(page.locator("main")).to_contain_text("No head is kept in")
    expect(page.locator("main pre")).to_have_text("frostbench train CACHE --preset auto")
