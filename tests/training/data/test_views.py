"""Several views of an image: as samples, together in a batch, averaged, and with a consistency term."""

from dataclasses import replace

import pytest
import torch
from scipy.spatial.distance import jensenshannon

from frostbench.heads.head import Core
from frostbench.training.data.part import Data, Part
from frostbench.training.data.train_rows import train_rows
from frostbench.training.data.views import averaged, images_per_class, rows_of_first_views, rows_of_images
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stack import Stack
from frostbench.training.losses.consistency import Consistency
from frostbench.training.run import RunSpec

NAMES = ("ash", "beech", "cedar", "elm")
COUNTS = torch.tensor([24, 12, 6, 4])
VIEWS = 3


def run(train=None, **changes):
    """Return a run of a linear head for a few epochs."""
    base = {"schedule": {"epochs": 4, "min_steps": 0, "batch_size": 24}, "optim": {"kind": "adamw", "lr": 0.01}}
    return RunSpec.model_validate({"train": base | (train or {})} | changes)


def images_of(counts, seed, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(4).repeat_interleave(counts)
    return centres[labels] + spread * torch.randn(len(labels), 8, generator=generator), labels


@pytest.fixture
def viewed():
    """Return 46 images with three views each in random order, and one row for each validation image."""
    x, labels = images_of(COUNTS, 1)
    generator = torch.Generator().manual_seed(2)
    order = torch.randperm(len(labels) * VIEWS, generator=generator)
    images = torch.arange(len(labels)).repeat(VIEWS)[order]
    views = x[images] + 0.3 * torch.randn(len(images), 8, generator=generator)
    other = Part({"avg": images_of(torch.tensor([20] * 4), 3)[0]}, images_of(torch.tensor([20] * 4), 3)[1])
    return Data(Part({"avg": views}, labels[images], images=images), other, other, NAMES)


def ended(spec, data):
    return list(fit([spec], data))[-1]


class TestBatches:
    def steps(self, monkeypatch, spec, data):
        """Return the row indices of each step."""
        found = []
        step = "frostbench.training.engine.stack.Stack.step"
        plain = Stack.step

        def spy(self, rows, *others):
            found.append(rows)
            return plain(self, rows, *others)

        monkeypatch.setattr(step, spy)
        list(fit([spec], data))
        return found

    @pytest.mark.parametrize("sampler", [{"kind": "shuffled"}, {"kind": "pxk", "classes": 2, "rows": 3}])
    def test_all_views_of_an_image_come_together(self, viewed, monkeypatch, sampler):
        for rows in self.steps(monkeypatch, run({"views": "together", "sampler": sampler}), viewed):
            images = viewed.train.images[rows].view(-1, VIEWS)
            assert (images == images[:, :1]).all()
            assert len(torch.unique(images[:, 0])) == len(images)

    def test_a_pass_shows_every_row_once_in_batches_of_that_many_rows(self, viewed, monkeypatch):
        steps = self.steps(monkeypatch, run({"views": "together"}), viewed)
        assert [len(rows) for rows in steps] == 4 * [24, 24, 24, 24, 24, 18]
        for epoch in range(4):
            seen = torch.cat(steps[6 * epoch : 6 * epoch + 6])
            assert sorted(seen.tolist()) == list(range(46 * VIEWS))

    def test_samples_are_drawn_row_by_row(self, viewed, monkeypatch):
        steps = self.steps(monkeypatch, run(), viewed)
        images = viewed.train.images[steps[0]]
        assert len(torch.unique(images)) > 24 // VIEWS


class TestAverages:
    def test_a_run_on_averages_is_one_on_the_means_bit_for_bit(self, viewed):
        x, labels = images_of(COUNTS, 1)
        means = averaged(viewed.train.columns["avg"], viewed.train.images)
        assert (means - x).abs().max() < 1
        plain = replace(viewed, train=Part({"avg": means}, labels))
        a, b = ended(run({"views": "averaged"}), viewed), ended(run(), plain)
        assert torch.equal(a.head.head.classifier.weight, b.head.head.classifier.weight)
        assert torch.equal(a.head.priors.counts, b.head.priors.counts)

    def test_closed_form_heads_use_the_means_too(self, viewed):
        x = {"head": {"classifier": {"kind": "ncm"}}}
        means = averaged(viewed.train.columns["avg"], viewed.train.images)
        labels = viewed.train.labels[rows_of_first_views(viewed.train.images)]
        plain = replace(viewed, train=Part({"avg": means}, labels))
        a, b = ended(run({"views": "averaged"}, **x), viewed), ended(run(**x), plain)
        columns = viewed.select.columns
        assert torch.equal(a.head.logits(columns), b.head.logits(columns))


@pytest.mark.parametrize("views", ["samples", "together", "averaged"])
def test_counts_and_weights_are_of_images(viewed, views):
    spec = run({"views": views, "loss": {"class_weight": {"kind": "effective", "beta": 0.9}}})
    rows = train_rows(spec, viewed)
    assert rows.counts.tolist() == COUNTS.tolist()
    effective = (1 - 0.9 ** COUNTS.double()) / (1 - 0.9)
    wanted = 1 / effective
    found = rows.statistics(spec).weight
    assert (found / found.sum()).tolist() == pytest.approx((wanted / wanted.sum()).tolist())
    assert ended(spec, viewed).head.priors.counts.tolist() == COUNTS.tolist()


def test_synthetic_rows_are_images_of_their_own(viewed):
    loss = {"class_weight": {"kind": "effective", "beta": 0.9}}
    spec = run({"oversample": {"kind": "gaussian"}, "loss": loss})
    rows = train_rows(spec, viewed)
    made = torch.bincount(rows.labels, minlength=4) - VIEWS * COUNTS
    assert made.sum() > 0
    assert rows.counts.tolist() == COUNTS.tolist()
    weight = rows.statistics(spec).weight
    wanted = 1 / (1 - 0.9 ** (COUNTS + made).double())
    assert (weight / weight.sum()).tolist() == pytest.approx((wanted / wanted.sum()).tolist())
    assert ended(spec, viewed).head.priors.counts.tolist() == COUNTS.tolist()


class TestConsistency:
    def test_it_is_the_squared_jensen_shannon_distance_of_two_views(self):
        p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4], [0.3, 0.4, 0.3]], dtype=torch.float64)
        wanted = [jensenshannon(p[i], p[i + 1]) ** 2 for i in (0, 2)]
        assert Consistency()(p.log(), 2).item() == pytest.approx(sum(wanted) / 2, abs=1e-12)

    def test_it_is_bounded_by_the_log_of_the_views_and_0_for_equal_ones(self):
        sure = 50 * torch.eye(3, dtype=torch.float64)
        assert Consistency()(sure, 3).item() == pytest.approx(torch.tensor(3.0).log().item(), abs=1e-6)
        assert Consistency()(sure[[0, 0, 1, 1]], 2).item() == pytest.approx(0, abs=1e-12)

    def test_the_objective_of_a_step_has_it_added(self, viewed):
        """One step over all rows, whose objective is computed before it."""
        schedule = {"schedule": {"epochs": 1, "min_steps": 0, "batch_size": 46 * VIEWS}, "views": "together"}
        head = {"head": {"body": {"kind": "mlp", "hidden": [8], "dropout": 0}}}
        values = []
        for weight in (0.0, 2.0):
            events = list(fit([run(schedule | {"loss": {"consistency": {"weight": weight}}}, **head)], viewed))
            values.append(next(e.loss for e in events if isinstance(e, Epoch)))
        spec = run(schedule, **head)
        (context,) = run_contexts([0], [spec], viewed)
        core = Core(context.head.body, context.head.classifier).eval()
        rows = rows_of_images(viewed.train.images).flatten()
        with torch.no_grad():
            term = Consistency()(core(context.rows.x[rows]), VIEWS).item()
        assert values[1] - values[0] == pytest.approx(2 * term, rel=1e-3)

    def test_views_of_an_image_are_predicted_more_alike(self, viewed):
        def spread(weight):
            train = {"views": "together", "loss": {"consistency": {"weight": weight}}, "early_stop": {"metric": "last"}}
            end = ended(run(train | {"schedule": {"epochs": 40, "min_steps": 0, "batch_size": 24}}), viewed)
            log_p = end.head.log_probabilities(viewed.train.columns)
            return Consistency()(log_p[rows_of_images(viewed.train.images).flatten()], VIEWS).item()

        assert spread(100.0) < 0.5 * spread(0.0)

    def test_absent_classes_leave_it_finite(self, viewed):
        named = replace(viewed, class_names=(*NAMES, "yew"))
        end = ended(run({"views": "together", "loss": {"consistency": {"weight": 1}}}), named)
        assert isinstance(end, Finished)
        assert end.head.head.classifier.weight.isfinite().all()


@pytest.mark.parametrize(
    "train",
    [
        {"views": "together", "loss": {"consistency": {"weight": 0.5}}},
        {"views": "together", "sampler": {"kind": "pxk", "classes": 3, "rows": 2}},
        {"views": "averaged"},
    ],
)
def test_a_stack_is_a_loop(viewed, train):
    def doubled(part):
        return replace(part, columns={"avg": part.columns["avg"].double()})

    select = doubled(viewed.select)
    exact = replace(viewed, train=doubled(viewed.train), select=select, calibrate=select)
    optims = [{"kind": "adamw", "lr": lr} for lr in (0.003, 0.03)]
    runs = [run(train | {"optim": optim}) for optim in optims]
    if "loss" in train:
        runs.append(run(train | {"loss": {"consistency": {"weight": 4.0}}}))
    stacked = [e for e in fit(runs, exact) if isinstance(e, Finished)]
    assert [e.stack_size for e in stacked] == [len(runs)] * len(runs)
    for end in stacked:
        alone = ended(runs[end.run], exact).head.head.classifier.weight
        assert (end.head.head.classifier.weight - alone).abs().max() < 1e-6


def test_supcon_finds_the_other_views_where_an_image_is_alone_in_its_class(viewed):
    """With one image per class, only its other views are positives; most rows have none if drawn one by one."""
    one = rows_of_first_views(viewed.train.labels)
    keep = torch.isin(viewed.train.images, viewed.train.images[one])
    part = viewed.train
    few = replace(viewed, train=Part({"avg": part.columns["avg"][keep]}, part.labels[keep], images=part.images[keep]))
    assert few.train.labels.bincount().tolist() == [VIEWS] * 4
    loss = {"point_weight": 0, "supcon": {"weight": 1}}
    train = {"loss": loss, "schedule": {"epochs": 1, "min_steps": 0, "batch_size": 3}, "early_stop": {"metric": "last"}}
    head = {"head": {"body": {"kind": "mlp", "hidden": [8]}}, "second": {"kind": "refit"}}
    losses = {}
    for views in ("samples", "together"):
        events = list(fit([run(train | {"views": views}, **head)], few))
        losses[views] = next(e.loss for e in events if isinstance(e, Epoch))
    assert losses["together"] > 0.3
    assert losses["samples"] != pytest.approx(losses["together"])


@pytest.mark.parametrize(
    ("change", "images", "message"),
    [
        ({"views": "together"}, None, "train.views=together needs the image"),
        ({"views": "averaged"}, None, "train.views=averaged needs the image"),
        ({"views": "together"}, "uneven", "got 2 to 4 views"),
        ({"views": "together"}, "single", "each image has one row"),
        ({"loss": {"consistency": {"weight": 1}}}, "even", "set train.views=together"),
    ],
)
def test_impossible_options_are_refused(viewed, change, images, message):
    part = viewed.train
    uneven = part.images.clone()
    first = (uneven == 0).nonzero()[0]
    uneven[first] = 1
    single = torch.arange(len(part))
    chosen = {"even": part.images, "uneven": uneven, "single": single, None: None}[images]
    data = replace(viewed, train=Part(part.columns, part.labels, images=chosen))
    with pytest.raises(ValueError, match=message):
        list(fit([run(change)], data))


def test_views_of_selection_rows_are_refused(viewed):
    select = replace(viewed.select, images=torch.arange(len(viewed.select)))
    with pytest.raises(ValueError, match="one per image"):
        list(fit([run()], replace(viewed, select=select)))


def test_views_of_one_image_have_one_label(viewed):
    images = torch.zeros_like(viewed.train.labels)
    with pytest.raises(ValueError, match="some image has two"):
        Part(viewed.train.columns, viewed.train.labels, images=images)
    with pytest.raises(ValueError, match="Images must be one int64 index for each"):
        Part(viewed.train.columns, viewed.train.labels, images=images[:3])


def test_rows_of_images_by_hand():
    images = torch.tensor([5, 2, 5, 2, 9, 9])
    assert rows_of_images(images).tolist() == [[1, 3], [0, 2], [4, 5]]
    assert rows_of_first_views(images).tolist() == [1, 0, 4]
    assert images_per_class(torch.tensor([1, 0, 1, 0, 0, 0]), images, 2).tolist() == [2, 1]
