"""Learnable prototypes: several centres per class that start at its clusters."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Classifier, Remark
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.cosine import CosineLayer, random_layer, unit_rows
from frostbench.heads.stepped.scale import WIDEST_SCALE


class Prototype(Classifier):
    """Logits are scale times the cosine to a class's prototypes, which start at its clusters and are then trained.

    A class gets one prototype per five rows, and at least one. Several prototypes by k-means follow Rippel et al.,
    "Metric learning with adaptive density discrimination", ICLR 2016; the cosine with a temperature Snell et al.,
    "Prototypical networks", NeurIPS 2017, and Gidaris and Komodakis, CVPR 2018.
    """

    is_cosine: ClassVar[bool] = True
    remarks: ClassVar[tuple[Remark, ...]] = (
        Remark(
            "no effect",
            lambda own: own.centers == 1 and own.combine != "max",
            "a class with one prototype has nothing to combine, so head.classifier.combine has no effect: set "
            "head.classifier.centers above 1",
        ),
    )
    kind: Literal["prototype"] = "prototype"
    centers: int = Field(default=1, ge=1, le=5, title="Prototypes: most per class")
    """Most prototypes a class can have."""
    combine: Literal["max", "lse"] = Field(default="max", title="Prototypes: nearest or soft maximum")
    """Whether the nearest prototype of a class counts, or all of them softly by their mean of exp(scale cos)."""
    scale: float | None = Field(
        default=None,
        ge=1,
        le=200,
        json_schema_extra=SWEPT | empty("by number of classes"),
        title="Prototypes: cosine scale",
    )
    """Factor on the cosines; left empty, it follows from the number of classes (10 to 30)."""

    @property
    def logit_bound(self) -> float:
        """The scale, or the widest one that follows from a number of classes."""
        return WIDEST_SCALE if self.scale is None else self.scale

    @property
    def centers_per_class(self) -> int:
        """The most prototypes that a class can have."""
        return self.centers

    @property
    def reads_all_at_once(self) -> str:
        """Its kind, for prototypes start at the clusters of all rows."""
        return f"kind={self.kind}"

    def build(self, dim: int, classes: int, generator: torch.Generator) -> CosineLayer:
        """The layer from width dim to that many classes, with random directions from generator."""
        layer = random_layer(dim, classes, self.scale, generator, self.centers)
        layer.combine = self.combine
        return layer

    def start(self, layer: CosineLayer, rows: Rows, generator: torch.Generator) -> None:
        """Put the prototypes of each class at its k-means centres; a class without rows keeps one random direction."""
        seed = int(torch.randint(2**31 - 1, (), generator=generator))
        x = unit_rows(rows.x.double()).cpu()
        labels, weight = rows.labels.cpu(), rows.weight.cpu()
        layer.used[:, 1:] = False
        for label in torch.unique(labels).tolist():
            own = labels == label
            found = unit_rows(cluster_centers(x[own], weight[own], self.centers, seed))
            # Rows that cancel out have no direction; the random one is as good as any.
            found = found[(found != 0).any(1)].to(layer.weight)
            with torch.no_grad():
                layer.weight[label, : len(found)] = found
            layer.used[label, 1 : len(found)] = True


def cluster_centers(x: Tensor, weight: Tensor, most: int, seed: int) -> Tensor:
    """[K, H] k-means centres of rows x [N, H] float64 weighted by weight [N]; K is min(most, N // 5), at least 1.

    Never more than there are different rows.
    """
    wanted = max(1, min(most, len(x) // 5))
    if wanted > 1:
        wanted = min(wanted, len(torch.unique(x, dim=0)))
    if wanted == 1:
        return (weight @ x / weight.sum()).unsqueeze(0)
    # Imported here, because scikit-learn takes a second to load and few heads need it.
    from sklearn.cluster import KMeans

    found = KMeans(wanted, n_init=1, random_state=seed).fit(x.numpy(), sample_weight=weight.numpy())
    return torch.from_numpy(found.cluster_centers_)
