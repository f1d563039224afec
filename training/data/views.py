"""Several views of an image in training: which rows show the same image, and their mean."""

import torch
from torch import Tensor


def rows_of_images(images: Tensor) -> Tensor:
    """Row numbers [I, V] of the V views of each image, from the image [N] that each row shows.

    Images come in the order of their numbers, and the views of one in the order of the rows.

    >>> rows_of_images(torch.tensor([7, 3, 7, 3]))
    tensor([[1, 3],
            [0, 2]])

    Raises:
        ValueError: images have other numbers of views.
    """
    counts = torch.unique(images, return_counts=True)[1]
    if (counts != counts[0]).any():
        raise ValueError(
            "views of an image come together in a batch where every image has as many, however: images have from "
            f"{int(counts.min())} to {int(counts.max())} views. Give each image as many, or set train.views=samples or "
            "averaged."
        )
    return images.argsort(stable=True).view(len(counts), -1)


def rows_of_first_views(images: Tensor) -> Tensor:
    """The first row [I] of each image, from the image [N] that each row shows, in the order of the images' numbers.

    >>> rows_of_first_views(torch.tensor([7, 3, 7, 3]))
    tensor([1, 0])
    """
    counts = torch.unique(images, return_counts=True)[1]
    return images.argsort(stable=True)[counts.cumsum(0) - counts]


def averaged(x: Tensor, images: Tensor) -> Tensor:
    """The mean [I, D] of the views x [N, D] of each image, in the order of the images' numbers.

    >>> averaged(torch.tensor([[1.0], [5], [3]]), torch.tensor([7, 3, 7]))
    tensor([[5.],
            [2.]])
    """
    _, place, counts = torch.unique(images, return_inverse=True, return_counts=True)
    total = x.new_zeros(len(counts), *x.shape[1:]).index_add_(0, place, x)
    mean: Tensor = total / counts.to(x.dtype).view(-1, *[1] * (x.ndim - 1))
    return mean


def images_per_class(labels: Tensor, images: Tensor | None, classes: int) -> Tensor:
    """Number [C] of images of each class, from labels [N] and the image [N] that each row shows; None means its own.

    >>> images_per_class(torch.tensor([0, 1, 0, 1, 1]), torch.tensor([7, 3, 7, 3, 5]), 3)
    tensor([1, 2, 0])
    """
    own = labels if images is None else labels[rows_of_first_views(images)]
    return torch.bincount(own, minlength=classes)
