"""A head: preprocessing, then body, then classifier."""

from collections.abc import Callable, Mapping
from typing import Annotated, get_args

import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.bodies.attention_pool import Pool
from frostbench.heads.bodies.body import Blocks, BodySpec, Identity, Pass
from frostbench.heads.classifier import Classifier
from frostbench.heads.closed_form.knn import Neighbours
from frostbench.heads.closed_form.lda import Lda
from frostbench.heads.closed_form.mahalanobis import Mahalanobis
from frostbench.heads.closed_form.nearest_mean import NearestMean
from frostbench.heads.closed_form.ridge import Ridge
from frostbench.heads.closed_form.zero_shot import ZeroShot
from frostbench.heads.logreg.logreg import LogisticRegression
from frostbench.heads.preprocess import Affine, Standardise
from frostbench.heads.spec import Spec
from frostbench.heads.stepped.arcface import ArcFace
from frostbench.heads.stepped.cosface import CosFace
from frostbench.heads.stepped.cosine import Cosine
from frostbench.heads.stepped.external import ExternalClassifier
from frostbench.heads.stepped.ldam import Ldam
from frostbench.heads.stepped.linear import Linear
from frostbench.heads.stepped.prototype import Prototype
from frostbench.heads.walk import kind_of

Closed = LogisticRegression | Ridge | Lda | NearestMean | Mahalanobis | Neighbours | ZeroShot
"""Classifiers without gradient steps."""
Stepped = Linear | Cosine | ArcFace | CosFace | Ldam | Prototype | ExternalClassifier
"""Classifiers trained with gradient steps."""
ClosedSpec = Annotated[Closed, Field(discriminator="kind")]
ClassifierSpec = Annotated[Stepped | Closed, Field(discriminator="kind")]
Body = Pass | Blocks | Pool
CLASSIFIERS: tuple[type[Classifier], ...] = (*get_args(Stepped), *get_args(Closed))
"""All kinds of classifiers."""


def kinds_that(predicate: Callable[[type[Classifier]], bool]) -> str:
    """Return the kinds that satisfy a predicate, listed for a message as "a, b and c".

    >>> kinds_that(lambda kind: kind.is_linear)
    'linear'
    """
    *first, last = [str(kind_of(kind)) for kind in CLASSIFIERS if predicate(kind)]
    return f"{', '.join(first)} and {last}" if first else last


class HeadSpec(Spec):
    """The map from a cached vector to logits."""

    preprocess: Standardise = Field(default=Standardise(), title="Preprocessing")
    """How a vector is scaled and centred before the body."""
    body: BodySpec = Field(default=Identity(), title="Body")
    """Layers before the classifier: none, an MLP, or attention pooling of tokens."""
    classifier: ClassifierSpec = Field(default=Linear(), title="Classifier")
    """Layer or closed-form model that turns the body's output into logits."""

    def build(self, x: Tensor, classes: int, generator: torch.Generator) -> "Head":
        """Build an untrained head for training features x [N, D], initialised from generator.

        Raises:
            TypeError: the classifier is fitted to rows and has no untrained form.
        """
        body = self.body.build(x.shape[-1], generator)
        return Head(self.preprocess.build(x), body, self.classifier.build(body.width, classes, generator))

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> "Head":
        """Return a head into which saved tensors of these shapes, by name, can be loaded."""
        body = self.body.build(dim, torch.Generator())
        below = {n.removeprefix("classifier."): s for n, s in shapes.items() if n.startswith("classifier.")}
        classifier = self.classifier.blank(body.width, classes, below)
        temperatures = torch.ones(classes) if "tau" in shapes else None
        return Head(self.preprocess.build(torch.zeros(2, dim)), body, classifier, temperatures)


class Core(nn.Module):
    """The trained part of a head: body, then classifier, whose logits may be divided by class temperatures [C].

    Shapes: x [N, D] -> [N, C]
    """

    tau: Tensor | None

    def __init__(self, body: Body, classifier: nn.Module, class_temperatures: Tensor | None = None) -> None:
        super().__init__()
        self.body = body
        self.classifier = classifier
        self.register_buffer("tau", class_temperatures)

    @property
    def width(self) -> int:
        """Width of the classifier's input."""
        return self.body.width

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [N, C] of preprocessed x [N, D]."""
        return divided(self.classifier(self.body(x)), self.tau)


def divided(logits: Tensor, class_temperatures: Tensor | None) -> Tensor:
    """Return logits [N, C] divided by class temperatures [C], or unchanged without temperatures."""
    return logits if class_temperatures is None else logits / class_temperatures


@torch.no_grad()
def fold_temperatures(head: "Head", class_temperatures: Tensor) -> None:
    """Apply class temperatures [C] to a head: a linear classifier absorbs them, otherwise they divide the logits.

    A logit of a linear layer becomes (w / t) x + b / t, so the layer stays linear. A cosine layer cannot absorb
    temperatures, because it ignores the length of its weights.
    """
    if isinstance(head.classifier, nn.Linear):
        head.classifier.weight.div_(class_temperatures[:, None])
        head.classifier.bias.div_(class_temperatures)
    else:
        head.register_buffer("tau", class_temperatures)


def linear_of(classifier: nn.Module) -> nn.Linear:
    """Return the classifier if it is a linear layer.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(classifier, nn.Linear):
        raise TypeError(
            f"A linear classifier is required, got {type(classifier).__name__}. Use head.classifier.kind=linear."
        )
    return classifier


class Head(nn.Module):
    """A map from vectors to logits, which may be divided by class temperatures [C].

    Shapes: x [N, D] -> [N, C]
    """

    tau: Tensor | None

    def __init__(
        self, preprocess: Affine, body: Body, classifier: nn.Module, class_temperatures: Tensor | None = None
    ) -> None:
        super().__init__()
        self.preprocess = preprocess
        self.body = body
        self.classifier = classifier
        self.register_buffer("tau", class_temperatures)

    def hidden(self, x: Tensor) -> Tensor:
        """Return the classifier's input [N, H] for x [N, D]."""
        hidden: Tensor = self.body(self.preprocess(x))
        return hidden

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [N, C] of x [N, D]."""
        return divided(self.classifier(self.hidden(x)), self.tau)
