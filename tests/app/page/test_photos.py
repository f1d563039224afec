"""Adding photos in a browser: from an empty folder to the data page, by path, folder, drop and zip; stop and resume."""

import base64
import shutil

import pytest
from driving import LONG
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


@pytest.fixture
def server(serve, tmp_path):
    """A server in a folder without a cache."""
    with serve(tmp_path, caches=()) as started:
        yield started


@pytest.fixture
def pictures(digits, tmp_path_factory):
    """A folder with two classes of a few photos and a file that cannot be read; outside that of the page."""
    folder = tmp_path_factory.mktemp("pictures") / "my digits"
    for place, name in enumerate(sorted((digits / "images").iterdir())[1:]):
        (folder / f"class {place}").mkdir(parents=True)
        for image in sorted(name.iterdir())[:20]:
            shutil.copy(image, folder / f"class {place}" / image.name)
    (folder / "class 0" / "broken.png").write_bytes(b"no image")
    (folder / "class 0" / "notes.txt").write_bytes(b"no image")
    return folder


@pytest.fixture
def page(browse):
    return browse("data")


def found(page):
    page.locator("main[data-photos=found]").wait_for(timeout=LONG)
    return page.locator(".plan > header p").inner_text()


def embed(page):
    """Wait for the estimate, start the embedding and wait for its end."""
    page.locator("main[data-measured=yes]").wait_for(timeout=LONG)
    expect(page.locator(".estimate")).to_contain_text("images/s, measured on")
    page.get_by_role("button", name="Embed").click()
    page.locator("main[data-photos=done]").wait_for(timeout=LONG)


def opened(page):
    """Open the data set and return the number of images."""
    page.get_by_role("link", name="Open the data set").click()
    expect(page.locator("main[data-checks=ready]")).to_be_visible(timeout=LONG)
    return page.locator("[data-tile=Images] .value").inner_text()


def test_a_folder_from_the_browser_becomes_a_data_set(page, server, pictures):
    expect(page.locator("main > p")).to_contain_text("There is no data set below")
    page.set_input_files("#photo-directory", pictures)
    assert found(page) == "41 images in 2 classes, from photos/my-digits"
    expect(page.locator(".sent")).to_contain_text("41 files are kept in photos/my-digits.")
    expect(page.locator(".sent")).to_contain_text("Files that are no readable images were skipped: 1 .txt.")
    expect(page.get_by_label("Name of the data set")).to_have_value("my-digits")
    embed(page)
    expect(page.locator(".bad tbody tr")).to_have_text("class 0/broken.pngis not an image in a supported format")
    expect(page.locator("code")).to_have_text(
        "frostbench embed photos/my-digits --cache my-digits --backbone bundled:efficientnet_lite0 --shard-rows 64"
    )
    expect(page.locator("#live")).to_have_text("All photos are embedded.")
    assert opened(page) == "40"
    assert page.url.endswith("/data?cache=my-digits")
    kept = server.folder / "photos" / "my-digits" / "class 1"
    assert sorted(path.name for path in kept.iterdir()) == sorted(
        path.name for path in (pictures / "class 1").iterdir()
    )
    page.get_by_role("link", name="Add photos").click()
    expect(page.locator("[data-embedding=done]")).to_contain_text("my-digits is ready")
    page.get_by_role("button", name="Hide this").click()
    expect(page.locator("[data-embedding]")).to_have_count(0)


def drop(page, files):
    """Drop files on the area for photos."""
    named = [[path.name, base64.b64encode(path.read_bytes()).decode()] for path in files]
    transfer = page.evaluate_handle(
        """files => {
          const transfer = new DataTransfer();
          for (const [name, text] of files)
            transfer.items.add(new File([Uint8Array.from(atob(text), c => c.charCodeAt(0))], name));
          return transfer;
        }""",
        named,
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": transfer})


def test_photos_are_dropped_one_class_after_another(page, server, pictures):
    drop(page, sorted((pictures / "class 0").glob("0*.png"))[:6])
    expect(page.locator(".sent")).to_contain_text("6 photos are in no folder: name their class below")
    expect(page.get_by_label("Class of photos that are in no folder")).to_be_focused()
    assert not (server.folder / "photos").exists()
    page.get_by_label("Class of photos that are in no folder").fill("nought")
    drop(page, sorted((pictures / "class 0").glob("0*.png"))[:6])
    assert found(page) == "6 images in 1 class, from photos/nought"
    page.get_by_label("Class of photos that are in no folder").fill("one")
    drop(page, sorted((pictures / "class 1").glob("*.png"))[:5])
    expect(page.locator(".plan > header p")).to_have_text("11 images in 2 classes, from photos/nought", timeout=LONG)
    page.get_by_label("Name of the data set").fill("two classes")
    page.get_by_label("Name of the data set").press("Tab")
    expect(page.locator("#photo-name-note")).to_contain_text("A cache's name must have 1 to 80 letters")
    expect(page.get_by_role("button", name="Embed")).to_be_disabled()
    page.get_by_label("Name of the data set").fill("two")
    page.get_by_label("Name of the data set").press("Tab")
    expect(page.locator("#photo-name-note")).to_contain_text("the folder two below")
    embed(page)
    assert opened(page) == "11"


def test_a_zip_file_becomes_a_data_set(page, pictures, tmp_path_factory):
    packed = tmp_path_factory.mktemp("packed") / "my photos"
    page.set_input_files("#photo-files", shutil.make_archive(str(packed), "zip", pictures.parent, pictures.name))
    assert found(page) == "41 images in 2 classes, from photos/my-photos"
    embed(page)
    assert opened(page) == "40"


def test_a_folder_on_the_disk_is_named_with_the_keyboard_alone(page, server, pictures):
    shutil.copytree(pictures, server.folder / "on disk")
    page.get_by_label("A folder on the server’s disk").focus()
    page.keyboard.type("nowhere")
    page.keyboard.press("Enter")
    expect(page.locator(".plan [role=alert]")).to_contain_text("'nowhere' is not a readable folder below")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("on disk")
    page.keyboard.press("Enter")
    assert found(page) == "41 images in 2 classes, from on disk"
    page.get_by_label("Groups, as a regular expression").fill("^(class [0-9])/")
    page.keyboard.press("Enter")
    expect(page.locator("#photo-groups-note")).to_contain_text("2 groups", timeout=LONG)
    expect(page.locator("#live")).to_contain_text("41 images")
    page.locator("main[data-measured=yes]").wait_for(timeout=LONG)
    page.get_by_role("button", name="Embed").focus()
    page.keyboard.press("Enter")
    page.locator("main[data-photos=done]").wait_for(timeout=LONG)
    expect(page.locator("code")).to_contain_text("--group-regex")
    page.get_by_role("link", name="Open the data set").focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-tile=Groups] .value")).to_have_text("2", timeout=LONG)


def test_the_error_of_another_backbone_is_told(page, server, pictures):
    shutil.copytree(pictures, server.folder / "disk")
    page.get_by_label("A folder on the server’s disk").fill("disk")
    page.get_by_role("button", name="Look at it").click()
    found(page)
    page.locator("main[data-measured=yes]").wait_for(timeout=LONG)
    page.get_by_label("Backbone", exact=True).select_option("other")
    expect(page.get_by_role("button", name="Embed")).to_be_disabled()
    page.get_by_label("Another backbone, as PROVIDER:MODEL").fill("timm:resnt50")
    page.get_by_role("button", name="Load it and measure the time").click()
    expect(page.locator(".estimate.wrong")).to_contain_text("timm:resnt50 cannot be loaded", timeout=LONG)
    expect(page.get_by_role("button", name="Embed")).to_be_disabled()


def test_an_embedding_is_stopped_and_resumed_after_the_server_was_killed(page, server, browse, pictures):
    for number in range(16):
        shutil.copytree(pictures, server.folder / "many", copy_function=numbered(number), dirs_exist_ok=True)
    page.get_by_label("A folder on the server’s disk").fill("many")
    page.get_by_role("button", name="Look at it").click()
    found(page)
    page.locator("main[data-measured=yes]").wait_for(timeout=LONG)
    page.get_by_role("button", name="Embed").click()
    expect(page.locator(".said")).to_contain_text("images/s", timeout=LONG)
    page.reload()
    page.get_by_role("button", name="Stop").click(timeout=LONG)
    page.locator("main[data-photos=stopped]").wait_for(timeout=LONG)
    expect(page.get_by_label("Images embedded")).to_have_count(1)
    server.kill()
    server.start()
    again = browse("data")
    expect(again.locator("[data-embedding=stopped]")).to_contain_text("of 656 images")
    again.get_by_role("button", name="Resume").click()
    again.locator("main[data-photos=embedding]").wait_for(timeout=LONG)
    expect(again.locator("#photos-pill")).to_contain_text("embedding", timeout=LONG)
    again.locator("main[data-photos=done]").wait_for(timeout=LONG)
    expect(again.locator("#photos-pill")).to_be_hidden(timeout=LONG)
    assert opened(again) == "640"


def numbered(number):
    def copy(source, target):
        folder, slash, name = target.rpartition("/")
        shutil.copy(source, f"{folder}{slash}{number} {name}")

    return copy


def test_nothing_overflows_on_a_phone(browse, server, pictures):
    shutil.copytree(pictures, server.folder / "disk")
    page = browse("data", 400)
    page.get_by_label("A folder on the server’s disk").fill("disk")
    page.get_by_role("button", name="Look at it").click()
    found(page)
    page.locator("main[data-measured=yes]").wait_for(timeout=LONG)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_role("button", name="Embed").click()
    page.locator("main[data-photos=done]").wait_for(timeout=LONG)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_tab_images_leads_to_adding_photos(browse):
    page = browse("images")
    page.get_by_role("link", name="Add photos").click()
    expect(page.get_by_role("heading", name="Add photos")).to_be_visible(timeout=LONG)
