"""The tab Images in a browser: filters, order, keys, and corrections of several images."""

import csv
import shutil

import pytest
from driving import LONG
from playwright.sync_api import expect
from short_benches import SHORT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(mislabelled, serve, tmp_path_factory):
    """A server in a folder with a cache and a run of the command line on it."""
    from frostbench.benchmarks.runs.runner import run_bench
    from frostbench.benchmarks.settings.plan import BenchSpec

    folder = tmp_path_factory.mktemp("images_tab")
    shutil.copytree(mislabelled, folder / "wrong")
    bench = {"caches": (str(folder / "wrong"),), "store": str(folder / "mine" / "results"), "preset": "plain"}
    list(run_bench(BenchSpec(**bench, base=SHORT, seeds=(0, 1))))
    with serve(folder) as started:
        yield started


@pytest.fixture
def open_images(server, browse):
    (server.folder / "wrong.labels.csv").unlink(missing_ok=True)

    def opened(query="", width=1366):
        page = browse(f"images?cache=wrong{query}", width)
        expect(page.locator("main[data-checks=ready]")).to_be_visible(timeout=LONG)
        return page

    return opened


def found(page):
    return page.locator(".found").inner_text()


def lines(server):
    with (server.folder / "wrong.labels.csv").open(newline="") as file:
        return [(line["id"], line["new"]) for line in csv.DictReader(file)]


def test_images_are_filtered_and_the_address_keeps_it(open_images):
    page = open_images()
    assert found(page) == "150 images of 150"
    page.get_by_label("Class", exact=True).select_option("digit 8")
    assert found(page) == "50 images of 150"
    page.get_by_label("Role").select_option("train")
    fewer = found(page)
    assert 0 < int(fewer.split()[0]) < 50
    page.get_by_label("Find images").fill("really 8 no such image")
    assert found(page) == "0 images of 150"
    page.get_by_label("Find images").fill("really")
    assert found(page) == fewer
    page.reload()
    expect(page.locator("main[data-checks=ready]")).to_be_visible(timeout=LONG)
    assert found(page) == fewer
    expect(page.get_by_label("Class", exact=True)).to_have_value("digit 8")


def test_labels_to_check_are_marked_and_come_first(open_images):
    page = open_images("&show=check&sort=check")
    marked = page.locator(".cell")
    expect(marked.first).to_have_attribute("data-check", "true")
    names = page.locator(".cell .picture").evaluate_all("all => all.slice(0, 6).map(image => image.alt)")
    assert all(name.split("/")[0] != f"digit {name.split('really ')[1][0]}" for name in names)


def test_predictions_of_a_trained_setting_filter_images(open_images):
    page = open_images()
    expect(page.get_by_label("What the setting says")).to_be_disabled()
    page.get_by_label("Trained setting").select_option(index=1)
    expect(page.locator("#live")).to_contain_text("validation images with predictions of plain")
    total = int(page.locator("#live").inner_text().split()[0])
    counts = []
    for said in ("right", "wrong"):
        page.get_by_label("What the setting says").select_option(said)
        counts.append(int(found(page).split()[0]))
    assert sum(counts) == total
    assert counts[1] > 0
    expect(page.locator(".cell .line.wrong").first).to_contain_text("✗ digit")
    assert "run=" in page.url


def test_several_images_are_corrected_and_taken_back(open_images, server):
    page = open_images("&class=digit 8")
    page.locator(".cell").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Space")
    bulk = page.get_by_role("toolbar", name="Chosen images")
    expect(bulk).to_contain_text("3 chosen")
    bulk.get_by_role("button", name="Change label").click()
    page.get_by_role("dialog").get_by_role("button", name="digit 1").click()
    expect(page.locator("#live")).to_have_text("3 images: digit 1")
    assert found(page) == "47 images of 150"
    assert [new for _, new in lines(server)] == ["digit 1"] * 3
    bulk.get_by_role("button", name="Undo").click()
    expect(page.locator(".found")).to_have_text("50 images of 150")
    assert [new for _, new in lines(server)] == ["digit 1"] * 3 + ["digit 8"] * 3


def test_images_are_left_out_and_confirmed(open_images, server):
    page = open_images("&class=digit 8")
    page.locator(".cell").nth(4).hover()
    page.locator(".cell .tick").nth(4).click()
    page.get_by_role("button", name="Leave out").click()
    expect(page.locator("#live")).to_have_text("1 image: left out")
    page.locator(".cell").first.click(modifiers=["Control"])
    page.get_by_role("button", name="Label is right").click()
    expect(page.locator("#live")).to_have_text("1 image: digit 8")
    assert [new for _, new in lines(server)] == ["", "digit 8"]
    page.get_by_label("Class", exact=True).select_option("")
    page.get_by_label("State").select_option("out")
    assert found(page) == "1 image of 150"
    page.get_by_label("State").select_option("checked")
    assert found(page) == "2 images of 150"


def test_arrows_move_and_enter_opens(open_images):
    page = open_images()
    page.locator(".cell").first.focus()
    page.keyboard.press("End")
    expect(page.locator(".cell[tabindex='0']")).to_have_attribute("aria-posinset", "150")
    expect(page.locator(".cell[tabindex='0']")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".cell[tabindex='0']")).to_be_focused()
    name = page.locator(".cell[tabindex='0'] .picture").get_attribute("alt").split(":")[0]
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name=name)).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_all_images_in_view_have_pictures(open_images):
    page = open_images()
    page.wait_for_function("() => [...document.querySelectorAll('.cell img')].every(image => image.naturalWidth > 0)")
    assert page.locator(".cell").count() > 20
    assert page.locator(".missing").count() == 0


def test_nothing_overflows_on_a_phone(open_images):
    page = open_images(width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
