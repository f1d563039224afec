"""TensorFlow padding as part of the convolution."""

import copy

import pytest
import timm
import torch
from timm.layers import Conv2dSame

from frostbench.embedcache.backbones.same_padding import PaddedWithin, pad_within_convolutions


def convolution(kernel: int, groups: int, **options: int) -> Conv2dSame:
    torch.manual_seed(kernel)
    return Conv2dSame(groups, 2 * groups, kernel, stride=2, groups=groups, **options)


@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize(("height", "width"), [(8, 8), (6, 10), (7, 7), (8, 7), (9, 12), (2, 2)])
def test_a_halving_convolution_gives_the_same_as_timms(kernel: int, height: int, width: int) -> None:
    """Sizes that are odd in one direction use timm's layer; even sizes must not be shifted by a pixel."""
    layer = convolution(kernel, groups=4)
    x = torch.randn(3, 4, height, width)
    with torch.no_grad():
        torch.testing.assert_close(PaddedWithin(layer)(x), layer(x), rtol=0, atol=1e-6)


def test_the_kernel_begins_at_the_pixel_itself() -> None:
    """TensorFlow's stride-2 3 x 3 kernel covers rows 2i, 2i + 1 and 2i + 2; sums are computed by hand."""
    layer = convolution(3, groups=1, bias=False)
    layer.weight = torch.nn.Parameter(torch.ones(2, 1, 3, 3))
    x = torch.arange(16.0).view(1, 1, 4, 4)
    rows = [
        [0 + 1 + 2 + 4 + 5 + 6 + 8 + 9 + 10, 2 + 3 + 6 + 7 + 10 + 11],
        [8 + 9 + 10 + 12 + 13 + 14, 10 + 11 + 14 + 15],
    ]
    expected = torch.tensor(rows, dtype=torch.float32)
    assert torch.equal(PaddedWithin(layer)(x)[0, 0], expected)


@pytest.mark.parametrize("number_type", [torch.float32, torch.bfloat16])
def test_a_network_gives_the_same_features(number_type: torch.dtype) -> None:
    torch.manual_seed(0)
    model = timm.create_model("tf_mobilenetv3_small_075", num_classes=0).eval()
    changed = copy.deepcopy(model)
    pad_within_convolutions(changed)
    assert sum(isinstance(layer, PaddedWithin) for layer in changed.modules()) == 5
    x = torch.randn(16, 3, 64, 64).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode(), torch.autocast("cpu", number_type, enabled=number_type != torch.float32):
        ours, theirs = changed(x).float(), model(x).float()
    share = 1e-5 if number_type == torch.float32 else 0.02
    torch.testing.assert_close(ours, theirs, rtol=0, atol=share * float(theirs.abs().max()))


def test_convolutions_for_which_it_would_be_wrong_or_slow_are_left_alone() -> None:
    others = {
        "kernel of one": Conv2dSame(4, 4, 1, stride=2, groups=4),
        "no halving": Conv2dSame(4, 4, 3, stride=1, groups=4),
        "stride of three": Conv2dSame(4, 4, 5, stride=3, groups=4),
        "dilated": Conv2dSame(4, 4, 3, stride=2, dilation=2, groups=4),
        "many channels at once": Conv2dSame(8, 8, 3, stride=2),
    }
    model = torch.nn.ModuleDict(others)
    pad_within_convolutions(model)
    assert all(model[name] is layer for name, layer in others.items())
