"""ONNX backbones, tested with small graphs."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import yaml
from network_outputs import assert_same_outputs
from onnx import NodeProto, SparseTensorProto, TensorProto, helper, numpy_helper, save

from frostbench.embedcache.backbones import Preparation, load_backbone, onnx_models
from frostbench.embedcache.backbones.rebuild import rebuild

STATED = {
    "size": 32,
    "crop": "squash",
    "crop_fraction": 1.0,
    "interpolation": "bilinear",
    "mean": [0.5, 0.4, 0.3],
    "std": [0.2, 0.3, 0.4],
}


def write_graph(path: Path, batch: int | str = "B", side: int | str = "S", channels: int = 3) -> Path:
    """Model with two outputs: the mean colours [B, 3] times a matrix, and the pixels as tokens [B, S * S, 3]."""
    matrix = np.arange(12.0).reshape(3, 4)[:channels].astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["average"]),
        helper.make_node("Flatten", ["average"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["embedding"]),
        helper.make_node("Reshape", ["image", "shape"], ["rows"]),
        helper.make_node("Transpose", ["rows"], ["patches"], perm=[0, 2, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, channels, side, side])],
        [
            helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [batch, 4]),
            helper.make_tensor_value_info("patches", TensorProto.FLOAT, [batch, "T", channels]),
        ],
        [numpy_helper.from_array(matrix, "matrix"), numpy_helper.from_array(np.array([0, channels, -1]), "shape")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, path)
    return path


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = write_graph(tmp_path / "tiny.onnx")
    (tmp_path / "tiny.onnx.yaml").write_text(yaml.safe_dump(STATED))
    return path


def batch_of(n: int) -> torch.Tensor:
    return torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(n))


def expected(batch: torch.Tensor) -> dict[str, torch.Tensor]:
    x = (batch / 255 - torch.tensor(STATED["mean"]).view(3, 1, 1)) / torch.tensor(STATED["std"]).view(3, 1, 1)
    matrix = torch.arange(12.0).reshape(3, 4)
    return {"output:embedding": x.mean((2, 3)) @ matrix, "output:patches": x.flatten(2).transpose(1, 2)}


def test_every_named_output_is_a_column(graph: Path) -> None:
    ours = load_backbone("onnx", str(graph))
    vectors = ours.embed(batch_of(3))
    for name, value in expected(batch_of(3)).items():
        assert_same_outputs(vectors[name], value)
    assert ours.dims == {"output:embedding": 4, "output:patches": 3}
    assert ours.tokens == {"output:patches": 1024}
    recipe = ours.recipes["output:embedding"]
    assert (recipe.pooling, recipe.output, recipe.autocast) == ("output", "embedding", "float32")
    assert (recipe.size, recipe.resize, recipe.crop, recipe.interpolation) == (32, 32, "squash", "bilinear")
    assert recipe.mean == (0.5, 0.4, 0.3)
    assert "onnxruntime" in ours.provenance
    assert list(load_backbone("onnx", str(graph), pooling=["output:embedding"]).recipes) == ["output:embedding"]
    with pytest.raises(ValueError, match="must be among output:embedding, output:patches, each"):
        load_backbone("onnx", str(graph), pooling=["output:other"])


@pytest.mark.parametrize("n", [1, 4, 6, 8])
def test_a_fixed_batch_is_filled_up(tmp_path: Path, n: int) -> None:
    path = write_graph(tmp_path / "four.onnx", batch=4, side=32)
    ours = load_backbone("onnx", str(path), preparation=Preparation(**STATED))
    vectors = ours.embed(batch_of(n))
    for name, value in expected(batch_of(n)).items():
        assert_same_outputs(vectors[name], value)


@pytest.mark.slow
def test_an_exported_model_gives_what_torch_gives(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=0, img_size=32, depth=2).eval()
    path = tmp_path / "model.onnx"
    dynamic = ({0: torch.export.Dim("batch", min=1, max=64)},)
    torch.onnx.export(model, (torch.zeros(2, 3, 32, 32),), path, dynamo=True, dynamic_shapes=dynamic, verbose=False)
    ours = load_backbone("onnx", str(path), preparation=Preparation(**STATED))
    (column,) = ours.recipes
    for n in (1, 2, 5):
        batch = batch_of(n)
        x = (batch / 255 - torch.tensor(ours.recipe.mean).view(3, 1, 1)) / torch.tensor(ours.recipe.std).view(3, 1, 1)
        with torch.inference_mode():
            assert_same_outputs(ours.embed(batch)[column], model(x))


def test_the_preprocessing_is_never_guessed(tmp_path: Path) -> None:
    path = write_graph(tmp_path / "bare.onnx")
    with pytest.raises(
        ValueError, match=r"but bare.onnx lacks size, crop, crop_fraction, interpolation, mean, std\. Write"
    ):
        load_backbone("onnx", str(path))
    some = Preparation(crop="squash", crop_fraction=1.0, interpolation="bicubic")
    with pytest.raises(ValueError, match=r"but bare.onnx lacks mean, std\."):
        load_backbone("onnx", str(path), size=64, preparation=some)
    (tmp_path / "bare.onnx.yaml").write_text("size: 32\ncolour: red\n")
    with pytest.raises(ValueError, match=r"(?s)must hold only size, crop, .*colour"):
        load_backbone("onnx", str(path))


def test_the_hash_is_of_the_file_wherever_it_lies(graph: Path, tmp_path: Path) -> None:
    ours = load_backbone("onnx", str(graph))
    moved = graph.rename(tmp_path / "moved.onnx")
    again = rebuild(ours.recipes, weights=moved)
    assert again.recipes == ours.recipes
    data = bytearray(moved.read_bytes())
    at = data.index(np.float32(7).tobytes())
    data[at : at + 4] = np.float32(8).tobytes()
    moved.write_bytes(data)
    with pytest.raises(ValueError, match="weights_sha256: expected"):
        rebuild(ours.recipes, weights=moved)


def test_tensors_in_a_file_of_their_own_count(tmp_path: Path) -> None:
    import onnx

    model = onnx.load(write_graph(tmp_path / "whole.onnx"))
    path = tmp_path / "split.onnx"
    onnx.save(model, path, save_as_external_data=True, location="split.bin", size_threshold=70)
    first = load_backbone("onnx", str(path), preparation=Preparation(**STATED)).recipe.weights_sha256
    data = bytearray((tmp_path / "split.bin").read_bytes())
    at = data.index(np.float32(7).tobytes())
    data[at : at + 4] = np.float32(8).tobytes()
    (tmp_path / "split.bin").write_bytes(data)
    assert load_backbone("onnx", str(path), preparation=Preparation(**STATED)).recipe.weights_sha256 != first


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"side": 48}, {}, r"got 32, but odd.onnx takes \[48, 48\]"),
        ({"channels": 1}, {}, r"one input, float32 images \[B, 3, H, W\]"),
        ({}, {"autocast": "bfloat16"}, "is fixed in its graph"),
        ({}, {"autocast": "half"}, "autocast must be"),
    ],
)
def test_what_does_not_fit_is_explained(tmp_path: Path, changes, arguments, message: str) -> None:
    path = tmp_path / "odd.onnx"
    write_graph(path, **changes)
    with pytest.raises(ValueError, match=message):
        load_backbone("onnx", str(path), preparation=Preparation(**STATED), **arguments)


def test_a_file_that_is_none_or_no_graph(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="an ONNX model must be a file"):
        load_backbone("onnx", str(tmp_path / "gone.onnx"))
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(ValueError, match="must be able to open the model"):
        load_backbone("onnx", str(tmp_path / "text.onnx"), preparation=Preparation(**STATED))


def test_without_onnxruntime_the_extra_is_named(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'frostbench\[export\]'"):
        load_backbone("onnx", str(graph))


def outside(name: str, shape: tuple[int, ...] = (2,)) -> TensorProto:
    """Build a tensor with external data."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=f"{name}.bin")
    return tensor


def constant(name: str) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=outside(name))


def branches(name: str) -> NodeProto:
    result = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])]
    then = helper.make_graph([constant(name)], "then", [], result)
    other = helper.make_graph([], "else", [], result, [outside("alternative")])
    return helper.make_node("If", ["condition"], [name], then_branch=then, else_branch=other)


def sparse(name: str) -> SparseTensorProto:
    indices = numpy_helper.from_array(np.array([0, 3]), "indices")
    return helper.make_sparse_tensor(outside(name), indices, [5])


WHERE = ["initialiser", "sparse", "constant", "branch", "alternative", "function", "list"]


@pytest.mark.parametrize("name", WHERE)
def test_tensors_in_files_of_their_own_count_wherever_they_are_named(tmp_path: Path, name: str) -> None:
    opset = [helper.make_opsetid("", 17)]
    nodes = [constant("constant"), branches("branch"), helper.make_node("Own", [], ["y"], domain="own")]
    nodes[2].attribute.append(helper.make_attribute("lists", [outside("list")]))
    graph = helper.make_graph(nodes, "g", [], [], [outside("initialiser")], sparse_initializer=[sparse("sparse")])
    function = helper.make_function("own", "Own", [], ["y"], [constant("function")], opset)
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opset, functions=[function]).SerializeToString())
    for one in WHERE:
        (tmp_path / f"{one}.bin").write_bytes(bytes(8))
    before = onnx_models._sha256(path)
    (tmp_path / f"{name}.bin").write_bytes(b"\1" + bytes(7))
    assert onnx_models._sha256(path) != before
    (tmp_path / f"{name}.bin").unlink()
    with pytest.raises(ValueError, match=rf"files below its folder, but model.onnx refers to '{name}.bin'"):
        onnx_models._sha256(path)
