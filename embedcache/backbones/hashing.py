"""The hash that names the weights of a model, wherever they came from."""

import hashlib

import torch
from torch import nn


def weights_sha256(model: nn.Module) -> str:
    """SHA-256 over the tensors of a loaded model, sorted by name: name, type, shape and bytes of each.

    The hash is taken after loading and without the classifier, so that it does not depend on the file format, the place
    or the classifier that the weights came with.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
