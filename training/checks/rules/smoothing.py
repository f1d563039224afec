"""Rules of the losses that remember something: FeDLaS, AdaFocal and CRL."""

from frostbench.heads.bodies.body import Identity
from frostbench.training.checks.rules.properties import is_adjusted, is_fitted, is_mixed, is_solved, largest_logit
from frostbench.training.checks.rules.rule import Rule
from frostbench.training.losses.adafocal import AdaFocal
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.fedlas import Fedlas
from frostbench.training.run import RunSpec


def _fedlas(run: RunSpec) -> Fedlas:
    return run.train.loss.fedlas


def _is_gated(run: RunSpec) -> bool:
    return _fedlas(run).alpha > 0


def _reads_norms(run: RunSpec) -> bool:
    return _fedlas(run).indicator in ("l1", "l2")


def _is_static(run: RunSpec) -> bool:
    """Whether the norm of a row is the same all through training."""
    return _fedlas(run).source == "input" or isinstance(run.head.body, Identity)


def _has_fixed_norms(run: RunSpec) -> bool:
    return _is_static(run) and _reads_norms(run)


def _has_idle_options(run: RunSpec) -> bool:
    """Whether an option of FeDLaS is set that its other options leave unread."""
    fedlas, plain = _fedlas(run), Fedlas()
    unread = {
        "margin": fedlas.base != "mbls",
        "reduction": fedlas.base != "mbls",
        "spread": fedlas.base == "mbls",
        "gate_width": fedlas.gate != "learned",
        "gate_rate": fedlas.gate != "learned",
        "theta": fedlas.statistics == "exact",
        "source": not _reads_norms(run),
    }
    return any(is_unread and getattr(fedlas, name) != getattr(plain, name) for name, is_unread in unread.items())


def _cannot_bind(run: RunSpec) -> bool:
    """Whether no two cosine logits can lie as far apart as the margin."""
    return _fedlas(run).base == "mbls" and 2 * largest_logit(run) <= _fedlas(run).margin


def _follows(run: RunSpec) -> bool:
    return isinstance(run.train.loss.point, AdaFocal)


def _ranks(run: RunSpec) -> bool:
    return run.train.loss.crl.weight > 0


SMOOTHING_RULES: tuple[Rule, ...] = (
    Rule(
        "idle",
        lambda run: not _is_gated(run) and _fedlas(run) != Fedlas(),
        "with train.loss.fedlas.alpha=0 no label is smoothed, so the other options of fedlas have no effect: raise it",
    ),
    Rule(
        "idle",
        lambda run: _is_gated(run) and is_fitted(run),
        "ridge, lda, ncm, mahalanobis, knn and zero_shot minimise no loss, so train.loss.fedlas has no effect on them: "
        "use head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: _is_gated(run) and is_solved(run) and not is_fitted(run),
        "fedlas trains its gate by gradient steps and logreg takes none: use head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: _is_gated(run) and not isinstance(run.train.loss.point, CrossEntropy),
        "fedlas is defined for cross entropy, of which it is the share-wise blend: set "
        "train.loss.point.kind=cross_entropy, or train.loss.fedlas.alpha=0",
    ),
    Rule(
        "refuse",
        lambda run: _is_gated(run) and run.train.loss.smoothing.epsilon > 0,
        "fedlas and label smoothing both soften the labels: set train.loss.smoothing.epsilon=0, or "
        "train.loss.fedlas.alpha=0",
    ),
    Rule(
        "refuse",
        lambda run: (
            _is_gated(run) and _fedlas(run).statistics == "exact" and not (_is_static(run) and _reads_norms(run))
        ),
        "exact statistics are those of norms that training does not change: set train.loss.fedlas.source=input with "
        "indicator l1 or l2, or statistics=first_batch",
    ),
    Rule(
        "idle",
        lambda run: _is_gated(run) and _has_idle_options(run),
        "some options of train.loss.fedlas are read with others alone: margin and reduction with base=mbls, spread "
        "with base=label_smoothing, gate_width and gate_rate with gate=learned, theta with running statistics, source "
        "with a norm",
    ),
    Rule(
        "warn",
        lambda run: _is_gated(run) and _has_fixed_norms(run),
        "the norm of a cached vector is one number that training never changes, and of vectors at length 1, or after a "
        "last LayerNorm, it says next to nothing: use head.body.kind=mlp, or train.loss.fedlas.indicator=max_logit",
    ),
    Rule(
        "warn",
        lambda run: (
            _is_gated(run) and is_adjusted(run) and _fedlas(run).base != "mbls" and _fedlas(run).spread == "uniform"
        ),
        "with logit adjustment, labels that fedlas smooths evenly favour rare classes everywhere: set "
        "train.loss.fedlas.spread=prior",
    ),
    Rule(
        "warn",
        lambda run: _is_gated(run) and _cannot_bind(run),
        "cosine logits lie at most 2 scale apart, so the margin of fedlas cannot bind: lower train.loss.fedlas.margin, "
        "or raise head.classifier.scale",
    ),
    Rule(
        "refuse",
        lambda run: _follows(run) and is_solved(run) and not is_fitted(run),
        "adafocal moves its powers after each epoch and logreg has none: use train.loss.point.kind=focal, or "
        "head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: _follows(run) and (is_mixed(run) or run.train.loss.smoothing.epsilon > 0),
        "adafocal sorts samples by the probability of their label, which soft labels do not have: set "
        "train.mixup.alpha=0 and train.loss.smoothing.epsilon=0, or use train.loss.point.kind=focal",
    ),
    Rule(
        "warn",
        lambda run: _follows(run) and is_adjusted(run),
        "adafocal sorts training samples by adjusted probabilities into bins of selection rows that are not adjusted: "
        "set train.loss.logit_adjustment.tau=0",
    ),
    Rule(
        "warn",
        lambda run: _follows(run) and run.posthoc.rows in ("select", "both") and run.posthoc.reads_rows,
        "adafocal trains by the calibration of the selection rows, so what is fitted to them after training sees rows "
        "that shaped it: give the split a calibrate share and set posthoc.rows=calibrate",
    ),
    Rule(
        "idle",
        lambda run: _ranks(run) and is_solved(run),
        "a solved classifier such as logreg has no batches, so train.loss.crl has no effect on it: set its weight to 0",
    ),
    Rule(
        "refuse",
        lambda run: _ranks(run) and is_mixed(run),
        "crl counts how often a row is predicted rightly, and a mixed row has no label of its own: set "
        "train.mixup.alpha=0 or train.loss.crl.weight=0",
    ),
)
