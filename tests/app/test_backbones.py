import pytest
from typer.testing import CliRunner

from frostbench.app.cli import app


def run(*arguments: str):
    return CliRunner().invoke(app, ["backbones", *arguments])


def test_backbones_are_listed_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "frostbench.embedcache.backbones.catalogue.is_at_hand", lambda known: known.provider == "bundled"
    )
    lines = run().output.splitlines()
    assert lines[0].split() == ["backbone", "dim", "size", "licence", "weights"]
    (lite,) = [line for line in lines if "lite0" in line]
    assert lite.split()[-2:] == ["at", "hand"]
    (small,) = [line for line in lines if line.startswith("huggingface:facebook/dinov3-vits16-")]
    assert "384" in small
    assert "DINOv3 License" in small
    assert small.split()[-1] == "gated"
    (hint,) = [line for line in lines if line.startswith("gated, such as huggingface:facebook/dinov3-vits16-pretrain")]
    assert hint.endswith("then `hf auth login`; offline: --weights FOLDER with the repository's files")
    assert max(map(len, lines[: lines.index("")])) < 130
    some = run("*sat493m").output.splitlines()
    assert [line.split()[0] for line in some[1 : some.index("")]] == [
        "huggingface:facebook/dinov3-vitl16-pretrain-sat493m",
        "huggingface:facebook/dinov3-vit7b16-pretrain-sat493m",
        "timm:vit_large_patch16_dinov3.sat493m",
        "timm:vit_7b_patch16_dinov3.sat493m",
    ]


def test_a_pattern_that_finds_nothing_is_an_error() -> None:
    found = run("resnet")
    assert isinstance(found.exception, ValueError)
    assert "No backbone in the catalogue matches 'resnet'" in str(found.exception)
