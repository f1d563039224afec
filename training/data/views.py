"""Several views of an image in training: the rows that show the same image, and their mean."""

import torch
from torch import Tensor


def rows_of_images(images: Tensor) -> Tensor:
    """Return the row indices [I, V] of the V views of each image, from the image index [N] of each row.

    Images are ordered by index, and the views of an image by row.

    >>> rows_of_images(torch.tensor([7, 3, 7, 3]))
    tensor([[1, 3],
            [0, 2]])

    Raises:
        ValueError: images have different numbers of views.
    """
    counts = torch.unique(images, return_counts=True)[1]
    if (counts != counts[0]).any():
        raise ValueError(
            f"All images must have the same number of views, got {int(counts.min())} to {int(counts.max())} views. "
            "Give each image the same number, or set train.views=samples or averaged."
        )
    return images.argsort(stable=True).view(len(counts), -1)


def rows_of_first_views(images: Tensor) -> Tensor:
    """Return the first row [I] of each image, ordered by image index, from the image index [N] of each row.

    >>> rows_of_first_views(torch.tensor([7, 3, 7, 3]))
    tensor([1, 0])
    """
    counts = torch.unique(images, return_counts=True)[1]
    return images.argsort(stable=True)[counts.cumsum(0) - counts]


def averaged(x: Tensor, images: Tensor) -> Tensor:
    """Return the mean [I, D] of the views x [N, D] of each image, ordered by image index.

    >>> averaged(torch.tensor([[1.0], [5], [3]]), torch.tensor([7, 3, 7]))
    tensor([[5.],
            [2.]])
    """
    _, index, counts = torch.unique(images, return_inverse=True, return_counts=True)
    total = x.new_zeros(len(counts), *x.shape[1:]).index_add_(0, index, x)
    mean: Tensor = total / counts.to(x.dtype).view(-1, *[1] * (x.ndim - 1))
    return mean


def images_per_class(labels: Tensor, images: Tensor | None, classes: int) -> Tensor:
    """Count the images per class [C], from labels [N] and the image index [N] of each row; None means one per row.

    >>> images_per_class(torch.tensor([0, 1, 0, 1, 1]), torch.tensor([7, 3, 7, 3, 5]), 3)
    tensor([1, 2, 0])
    """
    of_images = labels if images is None else labels[rows_of_first_views(images)]
    return torch.bincount(of_images, minlength=classes)
