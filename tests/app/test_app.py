"""Errors of `frostbench app` that are found before anything is loaded."""

import socket

import pytest

from frostbench.app.server.launch import listen


def test_a_port_that_is_taken_is_an_error(frostbench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        result = frostbench("app", "--port", other.getsockname()[1])
    assert result.status == 2
    assert "is not available (" in result.err
    assert "Give another --port" in result.err


@pytest.mark.parametrize("port", [-1, 65536, 70000])
def test_a_port_that_does_not_exist_is_an_error(frostbench, tmp_path, monkeypatch, port):
    monkeypatch.chdir(tmp_path)
    result = frostbench("app", "--port", port)
    assert result.status == 2
    assert f"A port must be from 0 (any free one) to 65535, got {port}. Give another --port." in result.err


def test_port_0_is_any_free_port():
    with listen(0) as listening:
        host, port = listening.getsockname()
    assert host == "127.0.0.1"
    assert 0 < port <= 65535


@pytest.mark.parametrize("words", [("nothing",), ("--store", "a file")])
def test_an_invalid_cache_or_store_is_an_error(frostbench, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").write_text("")
    result = frostbench("app", *words)
    assert result.status == 2
    assert "nothing" in result.err or "but a file is a file" in result.err
    assert list(tmp_path.iterdir()) == [tmp_path / "a file"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "lab.example"])
def test_a_page_for_others_needs_passwords(frostbench, tmp_path, monkeypatch, host):
    monkeypatch.chdir(tmp_path)
    result = frostbench("app", "--host", host)
    assert result.status == 2
    assert f"but --host is {host} and there is no --auth." in result.err


def test_an_address_of_another_machine_is_an_error(frostbench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "accounts").write_text("ana:correct horse")
    (tmp_path / "accounts").chmod(0o600)
    result = frostbench("app", "--host", "192.0.2.7", "--port", 0, "--auth", "accounts")
    assert result.status == 2
    assert "is not available (" in result.err
