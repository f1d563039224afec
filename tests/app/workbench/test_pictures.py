"""Pictures of a cache's images, without a browser."""

import numpy as np
import pytest

from frostbench.embedcache.table import read_table


def ask(client, own, image, size=96, **headers):
    query = {"cache": str(own), "id": image, "size": str(size)}
    return client.get("/frostbench/pictures", params=query, headers=headers)


def test_a_picture_is_sent_once(client, own):
    image = str(read_table(own, stored=True).ids[0])
    reply = ask(client, own, image)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "image/webp")
    again = ask(client, own, image, **{"if-none-match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert ask(client, own, image, 320).headers["etag"] != reply.headers["etag"]


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"id": "none.png"}, 404, "The cache has no image 'none.png'. Reload the page."),
        ({}, 400, "A size must be a number, got ''"),
        ({"cache": "/etc"}, 400, "The cache must be one of"),
        ({"size": "97"}, 400, "Pictures are made in the sizes (96, 320), got 97."),
        ({"size": "big"}, 400, "A size must be a number, got 'big'."),
    ],
)
def test_other_requests_are_refused(client, own, query, status, message):
    image = str(read_table(own, stored=True).ids[0])
    asked = {"cache": str(own), "id": image, "size": "96"} | query
    reply = client.get("/frostbench/pictures", params=asked if query else {"cache": str(own)})
    assert (reply.status_code, message in reply.text) == (status, True), reply.text


def test_several_pictures_are_sent_at_once(client, own):
    ids = read_table(own, stored=True).ids[:3].tolist()
    asked = {"cache": str(own), "size": 96, "ids": [ids[0], "none.png", ids[2]]}
    reply = client.post("/frostbench/api/pictures", json=asked)
    assert reply.headers["content-type"] == "application/octet-stream"
    lengths = np.frombuffer(reply.content[:12], "<u4")
    first, last = ask(client, own, ids[0]).content, ask(client, own, ids[2]).content
    assert lengths.tolist() == [len(first), 0, len(last)]
    assert reply.content[12:] == first + last


@pytest.mark.parametrize(
    "change", [{"ids": []}, {"ids": ["a"] * 101}, {"ids": [3]}, {"ids": "a"}, {"size": 97}, {"size": "96"}]
)
def test_other_requests_for_several_pictures_are_refused(client, own, change):
    asked = {"cache": str(own), "size": 96, "ids": ["a"]} | change
    reply = client.post("/frostbench/api/pictures", json=asked)
    assert reply.status_code == 400
    assert reply.json()["error"] == "Pictures need a cache, a size and 1 to 100 ids, as the page sends them."
