"""Head = preprocess, then body, then classifier: the one module the engine sees."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from heads.body import Blocks, BodySpec, Identity, Pass
from heads.linear import Linear
from heads.logreg import LogisticRegression
from heads.preprocess import Affine, Standardise
from heads.spec import Spec

ClassifierSpec = Annotated[Linear | LogisticRegression, Field(discriminator="kind")]


class HeadSpec(Spec):
    """What maps a cached vector to logits."""

    preprocess: Standardise = Standardise()
    """How a vector is standardised."""
    body: BodySpec = Identity()
    """What stands before the classifier: identity or mlp."""
    classifier: ClassifierSpec = Linear()
    """What turns the body's output into logits."""

    def build(self, x: Tensor, classes: int, generator: torch.Generator) -> "Head":
        """An untrained head for training features x [N, D], initialised from generator."""
        body = self.body.build(x.shape[1], generator)
        return Head(self.preprocess.build(x), body, self.classifier.build(body.width, classes, generator))

    def blank(self, dim: int, classes: int) -> "Head":
        """A head of the right shapes whose numbers are still to be loaded."""
        return self.build(torch.zeros(2, dim), classes, torch.Generator())


class Head(nn.Module):
    """A vector to logits.

    Shapes: x [N, D] -> [N, C]
    """

    def __init__(self, preprocess: Affine, body: Pass | Blocks, classifier: nn.Linear) -> None:
        super().__init__()
        self.preprocess = preprocess
        self.body = body
        self.classifier = classifier

    def hidden(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The classifier's input [N, H] for x [N, D]; generator feeds dropout in training mode."""
        hidden: Tensor = self.body(self.preprocess(x), generator)
        return hidden

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Logits [N, C] of x [N, D]."""
        logits: Tensor = self.classifier(self.hidden(x, generator))
        return logits
