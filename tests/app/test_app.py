"""`frostbench app` refuses what cannot work, before anything is loaded."""

import socket

import pytest


def test_a_port_that_is_taken_is_told(frostbench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        said = frostbench("app", "--port", other.getsockname()[1])
    assert said.status == 2
    assert "a port must be free, however:" in said.err
    assert "Give another --port" in said.err


@pytest.mark.parametrize("words", [("nothing",), ("--store", "a file")])
def test_what_is_no_cache_or_no_store_is_told(frostbench, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").write_text("")
    said = frostbench("app", *words)
    assert said.status == 2
    assert "however: nothing does not" in said.err or "however: a file is a file" in said.err
    assert list(tmp_path.iterdir()) == [tmp_path / "a file"]
