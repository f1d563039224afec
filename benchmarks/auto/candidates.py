"""The configurations that preset `auto` chooses from."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Candidate(NamedTuple):
    """A configuration: a preset, and differences from it by dotted option."""

    preset: str
    changes: dict[str, Any]


def _of(preset: str, **changes: Any) -> Candidate:
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    return Candidate(preset, dotted)


def _shrunk(alpha: float) -> dict[str, Any]:
    return {"head__classifier__shrinkage": "fixed", "head__classifier__alpha": alpha}


SHORT = {"train__schedule__epochs": 20, "train__schedule__batch_size": 128, "train__schedule__min_steps": 500}
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
SHRINKAGES = (0.1, 0.3)
CANDIDATES: Mapping[str, Candidate] = MappingProxyType(
    {
        "lda": _of("lda", head__classifier__prior="train"),
        **{f"lda, shrinkage={a:g}": _of("lda", **_shrunk(a), head__classifier__prior="train") for a in SHRINKAGES},
        **{f"balanced lda, shrinkage={a:g}": _of("lda", **_shrunk(a)) for a in SHRINKAGES},
        "ridge": _of("ridge", posthoc__calibration__kind="auto"),
        **{f"logreg, C={c:g}": _of("logreg", head__classifier__c=c) for c in STRENGTHS},
        **{
            f"balanced logreg, C={c:g}": _of(
                "logreg", head__classifier__c=c, train__loss__class_weight__kind="effective"
            )
            for c in STRENGTHS[1:]
        },
        "knn": _of("knn"),
        "mlp": _of("mlp", head__body__hidden=[512], **SHORT),
    }
)
"""Candidates by name, the simplest first: it wins if several are equally good."""
