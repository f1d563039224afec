"""The prototype head: several trained centres per class, which start at its clusters."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Remark
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.cosine import CosineClassifier, CosineLayer, unit_rows


class Prototype(CosineClassifier):
    """Logits are scale times the cosine to a class's prototypes, which start at its clusters and are then trained.

    A class gets one prototype per five rows, from one to `centers`. Several prototypes by k-means follow Rippel et al.,
    "Metric learning with adaptive density discrimination", ICLR 2016; the cosine with a temperature follows Snell et
    al., "Prototypical networks", NeurIPS 2017, and Gidaris and Komodakis, CVPR 2018.
    """

    remarks: ClassVar[tuple[Remark, ...]] = (
        Remark(
            "no effect",
            lambda own: own.centers == 1 and own.combine != "max",
            "a class with one prototype has nothing to combine, so head.classifier.combine has no effect: set "
            "head.classifier.centers above 1",
        ),
    )
    kind: Literal["prototype"] = "prototype"
    centers: int = Field(default=1, ge=1, le=5, title="Prototypes: maximum per class")
    """Maximum number of prototypes per class; a class gets one per five rows, and at least one."""
    combine: Literal["max", "lse"] = Field(default="max", title="Prototypes: nearest or soft maximum")
    """Whether only a class's nearest prototype counts (max), or all by the log of their mean exp(scale cos) (lse)."""
    scale: float | None = Field(
        default=None,
        ge=1,
        le=200,
        json_schema_extra=SWEPT | empty("by number of classes"),
        title="Prototypes: cosine scale",
    )
    """Factor on the cosines; if empty, it is chosen by the number of classes (10 to 30)."""

    @property
    def centers_per_class(self) -> int:
        """Maximum number of prototypes per class."""
        return self.centers

    @property
    def reads_all_at_once(self) -> str:
        """The option that needs all training rows at once: its kind, since prototypes start at clusters of all rows."""
        return f"kind={self.kind}"

    def build(self, dim: int, classes: int, generator: torch.Generator) -> CosineLayer:
        """Build a layer with `dim` inputs and `classes` outputs, with random directions from generator."""
        layer = super().build(dim, classes, generator)
        layer.combine = self.combine
        return layer

    def start(self, layer: CosineLayer, rows: Rows, generator: torch.Generator) -> None:
        """Set each class's prototypes to its k-means centres; a class without rows keeps one random direction."""
        seed = int(torch.randint(2**31 - 1, (), generator=generator))
        x = unit_rows(rows.x.double()).cpu()
        labels, weight = rows.labels.cpu(), rows.weight.cpu()
        layer.used[:, 1:] = False
        for label in torch.unique(labels).tolist():
            own = labels == label
            centers = unit_rows(cluster_centers(x[own], weight[own], self.centers, seed))
            # Rows that cancel out have no direction, so the class keeps its random one.
            centers = centers[(centers != 0).any(1)].to(layer.weight)
            with torch.no_grad():
                layer.weight[label, : len(centers)] = centers
            layer.used[label, 1 : len(centers)] = True


def cluster_centers(x: Tensor, weight: Tensor, most: int, seed: int) -> Tensor:
    """Return k-means centres [K, H] of rows x [N, H] float64 with weight [N].

    K is min(most, N // 5), at least 1, and at most the number of distinct rows.
    """
    wanted = max(1, min(most, len(x) // 5))
    if wanted > 1:
        wanted = min(wanted, len(torch.unique(x, dim=0)))
    if wanted == 1:
        return (weight @ x / weight.sum()).unsqueeze(0)
    # Imported here: scikit-learn takes a second to load, and few heads need it.
    from sklearn.cluster import KMeans

    kmeans = KMeans(wanted, n_init=1, random_state=seed).fit(x.numpy(), sample_weight=weight.numpy())
    return torch.from_numpy(kmeans.cluster_centers_)
