"""The hash that identifies the weights of a model."""

import hashlib

import torch
from torch import nn


def weights_sha256(model: nn.Module) -> str:
    """Return the SHA-256 of name, type, shape and bytes of all tensors of a loaded model, sorted by name.

    It is computed after loading and without the classifier, so it does not depend on the file format, the source of the
    file, or the classifier in it.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
