"""Photos that are uploaded to stay: names, limits, zip files, and that nothing is overwritten."""

import os
import stat
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from frostbench.app.workbench.photos import keeping
from frostbench.app.workbench.photos.keeping import PhotoSets
from frostbench.app.workbench.photos.names import wanted_parts
from frostbench.app.workbench.photos.receiving import take_photo

MIB = 2**20


@pytest.fixture
def sets(tmp_path):
    return PhotoSets(tmp_path / "root", most_bytes=MIB, most_files=5, most_total=3 * MIB)


@pytest.fixture
def root(sets):
    sets.root.mkdir()
    return sets.root


@pytest.fixture
def key(sets, root):
    return sets.begin("my set")


@pytest.fixture
def client(sets, tmp_path):
    async def keep(request):
        return await take_photo(request, sets, tmp_path / "scratch")

    return TestClient(Starlette(routes=[Route("/photos", keep, methods=["POST"])]))


def png(size=(30, 20)):
    out = BytesIO()
    Image.new("RGB", size).save(out, "PNG")
    return out.getvalue()


def packed(files):
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return out.getvalue()


def give(client, key, name, content):
    return client.post("/photos", params={"set": key, "name": name}, content=content)


def kept(root):
    found = (path for path in (root / "photos").rglob("*") if path.is_file() and path.name != keeping.MARK)
    return sorted(path.relative_to(root / "photos").as_posix() for path in found)


def test_a_photo_is_kept_byte_for_byte_in_its_class_folder(client, root, key):
    assert key == "photos/my-set"
    assert give(client, key, "cats/a b.png", png()).json() == {"kept": 1, "notes": []}
    assert kept(root) == ["my-set/cats/a b.png"]
    assert (root / key / "cats" / "a b.png").read_bytes() == png()


def test_a_photo_is_never_overwritten(client, root, key):
    give(client, key, "cats/1.png", b"first")
    answer = give(client, key, "cats/1.png", b"second")
    assert (answer.status_code, answer.json()["error"]) == (413, "'cats/1.png' is kept already, and was not replaced.")
    assert (root / key / "cats" / "1.png").read_bytes() == b"first"
    assert "is kept already" in give(client, key, "cats/1.png/2.png", b"x").json()["error"]
    assert kept(root) == ["my-set/cats/1.png"]


def test_a_second_set_of_the_same_name_has_a_folder_of_its_own(sets, root, key):
    assert sets.begin("my set") == "photos/my-set-2"


def test_a_folder_of_photos_that_a_person_made_is_left_alone(sets, root):
    (root / "photos" / "cats").mkdir(parents=True)
    assert sets.begin("cats") == "uploaded-photos-1/cats"
    assert sets.begin("cats") == "uploaded-photos-1/cats-2"
    assert [path.name for path in (root / "photos").iterdir()] == ["cats"]


def test_a_link_in_place_of_the_folder_is_not_followed(sets, root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / keeping.MARK).touch()
    (root / "photos").symlink_to(tmp_path / "elsewhere")
    assert sets.begin("cats") == "uploaded-photos-1/cats"


HOSTILE = [
    "../a.png",
    "cats/../../a.png",
    "/etc/a.png",
    "..\\a.png",
    "cats//a.png",
    "./a.png",
    "a\0b/1.png",
    "cats/\n.png",
    "cats/\u202egnp.png",
    "a/" * 8 + "1.png",
    "é" * 150 + ".png",
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(client, root, key, name):
    answer = give(client, key, name, png())
    assert answer.status_code == 413
    assert answer.json()["error"].startswith("A file's path must have 1 to 8 printable names of at most 200 bytes")
    assert kept(root) == []


@pytest.mark.parametrize("name", [name for name in HOSTILE if name and "\0" not in name])
def test_a_zip_file_with_a_hostile_name_is_refused_as_a_whole(client, root, key, tmp_path, name):
    answer = give(client, key, "a.zip", packed({"cats/1.png": png(), name: png()}))
    assert "A file's path must have" in answer.json()["error"]
    assert kept(root) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root", "scratch"]


@pytest.mark.parametrize("name", ["notes.txt", "cats/.hidden.png", "__MACOSX/cats/1.png", "photo.heic"])
def test_files_that_are_no_images_are_refused(client, root, key, name):
    assert "is no image that can be read. Leave it out." in give(client, key, name, b"x").json()["error"]
    assert wanted_parts(name) is None
    assert kept(root) == []


def test_a_set_that_was_not_begun_here_is_refused(client, root):
    (root / "photos" / "old").mkdir(parents=True)
    for key in ("photos/old", "../..", ""):
        answer = give(client, key, "cats/1.png", png())
        assert answer.json()["error"].startswith("This upload is no longer open. Reload the page")
    assert kept(root) == []


def test_sizes_and_numbers_are_limited_and_what_was_refused_leaves_nothing(client, root, key, sets):
    assert "'large.png' is larger" in give(client, key, "cats/large.png", bytes(MIB + 1)).json()["error"]
    for number in range(3):
        assert give(client, key, f"cats/{number}.png", bytes(MIB)).status_code == 200
    assert "may have 3 MiB together" in give(client, key, "cats/3.png", b"x").json()["error"]
    assert kept(root) == [f"my-set/cats/{number}.png" for number in range(3)]
    assert not [path for path in (root / key).iterdir() if path.name != "cats"]
    other = sets.begin("other")
    for number in range(5):
        give(client, other, f"cats/{number}.png", b"x")
    answer = give(client, other, "cats/5.png", b"x").json()["error"]
    assert answer == f"At most 5 photos can be uploaded together. {keeping.ADVICE}"
    # What was refused has not used up room.
    assert sets._sets[other].files == 5
    assert sets._sets[key].size == 3 * MIB


def test_an_upload_that_breaks_off_leaves_nothing(sets, root, key):
    async def chunks():
        yield b"half"
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        sets.keep(key, "cats/1.png", chunks()).send(None)
    assert kept(root) == []
    assert (sets._sets[key].files, sets._sets[key].size) == (0, 0)


def test_a_full_disk_is_told(client, root, key, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keeping, "new_file", full)
    answer = give(client, key, "cats/1.png", png())
    assert (answer.status_code, answer.json()["error"]) == (
        507,
        "The photo could not be written to the disk (No space left on device). Is it full?",
    )


def test_the_images_of_a_zip_file_are_kept_without_the_folder_around_them(client, root, key, tmp_path):
    files = {"set/cats/1.png": png(), "set/dogs/1.png": b"x", "set/notes.txt": b"n", "__MACOSX/set/cats/1.png": b"x"}
    told = give(client, key, "Photos.ZIP", packed(files)).json()
    assert told == {"kept": 2, "notes": ["Files that are no readable images were skipped: 1 .txt, 1 .png."]}
    assert kept(root) == ["my-set/cats/1.png", "my-set/dogs/1.png"]
    assert (root / key / "cats" / "1.png").read_bytes() == png()
    assert list((tmp_path / "scratch").iterdir()) == []
    again = give(client, key, "again.zip", packed({"set/cats/1.png": b"other", "set/dogs/2.png": b"y"})).json()
    assert again == {"kept": 1, "notes": ["Files whose name is kept already were skipped: 1."]}
    assert (root / key / "cats" / "1.png").read_bytes() == png()


def test_links_in_a_zip_file_are_skipped(client, root, key):
    link = ZipInfo("cats/link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    out = BytesIO()
    with ZipFile(out, "w") as made:
        made.writestr(link, "/etc/passwd")
        made.writestr("cats/1.png", png())
    assert give(client, key, "a.zip", out.getvalue()).json()["kept"] == 1
    assert kept(root) == ["my-set/cats/1.png"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no zip", "The zip file cannot be read: File is not a zip file. Pack it again"),
        (packed({"a.txt": b"a"}), "A zip file must hold images, but this one holds none."),
        (packed({"c/a.png": bytes(MIB + 1)}), "A photo may have at most 1 MiB, but 'c/a.png' is larger."),
        (packed({f"c/{i}.png": bytes(MIB) for i in range(4)}), "may have 3 MiB together."),
        (packed({f"c/{i}.png": b"x" for i in range(6)}), "At most 5 photos can be uploaded together."),
        (os.urandom(3 * MIB + 1), "A zip file may have at most 3 MiB."),
    ],
)
def test_zip_files_that_cannot_be_taken_are_refused(client, root, key, content, message):
    answer = give(client, key, "a.zip", content)
    assert answer.status_code == 413
    assert message in answer.json()["error"]
    assert kept(root) == []


def test_a_zip_file_that_states_a_smaller_size_than_it_unpacks_to_is_refused(client, root, key):
    content = bytearray(packed({"cats/1.png": bytes(1000)}))
    # The unpacked size stands at 22 of the local header and at 24 of the central one.
    for start in (content.index(b"PK\3\4") + 22, content.index(b"PK\1\2") + 24):
        content[start : start + 4] = (10).to_bytes(4, "little")
    assert "The zip file cannot be read" in give(client, key, "a.zip", bytes(content)).json()["error"]
    assert kept(root) == []


def test_a_zip_file_with_damaged_bytes_is_refused(client, root, key):
    content = bytearray(packed({"cats/1.png": os.urandom(500) + bytes(5000)}))
    start = content.index(b"PK\3\4") + 30 + len("cats/1.png")
    content[start : start + 40] = b"\xff" * 40
    assert "The zip file cannot be read" in give(client, key, "a.zip", bytes(content)).json()["error"]
    assert kept(root) == []
