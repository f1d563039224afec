"""Commands in terminals and pipes of old encodings."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from frostbench.app.cli import main

ENCODINGS = ["ascii", "latin-1", "cp437", "cp850", "utf-8"]


@pytest.fixture
def old_terminal(monkeypatch):
    """Run the command with standard output and error of an encoding that refuses what it lacks."""

    def run(encoding, *words):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
        monkeypatch.setattr(sys, "argv", ["frostbench", *map(str, words)])
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as end:
            main()
        for stream in streams:
            stream.flush()
        return int(end.value.code or 0), *(stream.buffer.getvalue().decode(encoding) for stream in streams)

    return run


@pytest.fixture(scope="module")
def odd_photos(photos, tmp_path_factory):
    root = tmp_path_factory.mktemp("odd") / "photos"
    picture = sorted((photos / "digit 8").iterdir())[0]
    for name in ("größe/日本 😀….png", "größe/two.png", "日本/1.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, root / name)
    (root / "größe" / "broken → ×.png").write_bytes(b"x")
    shutil.copy(picture, Path(os.fsdecode(os.fsencode(root / "größe") + b"/caf\xe9.png")))
    return root


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_character_ends_a_command(old_terminal, odd_photos, bundle, tmp_path, encoding):
    cache = tmp_path / "日本"
    status, result, errors = old_terminal(encoding, "embed", odd_photos, "--cache", cache, "--size", "64")
    assert (status, "4 of 5 images embedded" in result) == (0, True), errors
    status, result, _ = old_terminal(encoding, "cache", "info", cache)
    assert status == 0
    assert "日本" in json.dumps(json.loads(result), ensure_ascii=False)
    status, result, _ = old_terminal(encoding, "cache", "bad", cache)
    assert (status, result.count("\n")) == (0, 1)
    status, result, errors = old_terminal(encoding, "predict", bundle, odd_photos)
    assert (status, result.count("\n")) == (0, 5), errors
    status, _, errors = old_terminal(encoding, "predict", bundle, tmp_path / "nothing 日本", "--prior", "größe…")
    assert (status, "frostbench: A prior must be `trained`, `uniform` or a file" in errors) == (2, True)


def test_help_and_pipes_of_another_encoding():
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path.cwd())}
    for words in (["--help"], ["options"], ["backbones"]):
        result = subprocess.run(
            [sys.executable, "-m", "frostbench.app.cli", *words], env=environment, capture_output=True, check=False
        )
        assert (result.returncode, result.stderr) == (0, b"")
        assert result.stdout.isascii()
