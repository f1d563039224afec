"""Errors of `frostbench app` that are found before anything is loaded."""

import socket

import pytest


def test_a_port_that_is_taken_is_an_error(frostbench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        result = frostbench("app", "--port", other.getsockname()[1])
    assert result.status == 2
    assert "is not available (" in result.err
    assert "Give another --port" in result.err


@pytest.mark.parametrize("words", [("nothing",), ("--store", "a file")])
def test_an_invalid_cache_or_store_is_an_error(frostbench, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").write_text("")
    result = frostbench("app", *words)
    assert result.status == 2
    assert "nothing" in result.err or "but a file is a file" in result.err
    assert list(tmp_path.iterdir()) == [tmp_path / "a file"]
