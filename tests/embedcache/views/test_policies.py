"""Policies: their effect on pixels, and determinism given a seed."""

import numpy as np
import pytest
from PIL import Image

from frostbench.embedcache.views.catalogue import POLICIES, kinds, read_policy
from frostbench.embedcache.views.pairs import CutMix, SuperpixelMix, pasted
from frostbench.embedcache.views.single import ColourJitter, Crops, Flip, RandomCrop
from frostbench.embedcache.views.transplant import Transplant, occlusion, resampled

RNG = np.random.default_rng(0)
PHOTO = np.array(Image.fromarray(RNG.integers(0, 255, (6, 9, 3), np.uint8)).resize((90, 60), Image.Resampling.BICUBIC))
OTHER = np.array(Image.fromarray(RNG.integers(0, 255, (5, 5, 3), np.uint8)).resize((50, 50), Image.Resampling.BICUBIC))
SINGLE = [policy() for policy in POLICIES if not policy.needs_partner]


@pytest.mark.parametrize("policy", SINGLE, ids=lambda p: p.kind)
def test_a_view_is_decided_by_its_seed_and_leaves_the_image_alone(policy):
    before = PHOTO.copy()
    first, again, another = (policy(PHOTO, seed, 0).image for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(PHOTO, before)
    assert first.dtype == np.uint8
    assert first.shape[2] == 3
    assert policy(PHOTO, 7, 0).share == 1.0
    if policy.is_fixed:
        np.testing.assert_array_equal(first, another)


@pytest.mark.parametrize("policy", [p for p in SINGLE if not p.is_fixed], ids=lambda p: p.kind)
def test_other_seeds_give_other_views(policy):
    views = {policy(PHOTO, seed, 0).image.tobytes() for seed in range(8)}
    assert len(views) > 3


def test_a_flip_is_the_mirror_image():
    np.testing.assert_array_equal(Flip()(PHOTO, 0, 0).image, PHOTO[:, ::-1])


def test_crops_are_the_corners_and_their_mirror_images():
    policy = Crops(fraction=0.5, mirrored=True)
    corners = [PHOTO[:30, :45], PHOTO[:30, 45:], PHOTO[30:, :45], PHOTO[30:, 45:]]
    for number, wanted in enumerate(corners):
        np.testing.assert_array_equal(policy(PHOTO, 0, number).image, wanted)
        np.testing.assert_array_equal(policy(PHOTO, 0, number + 4).image, wanted[:, ::-1])
    assert (Crops().views, policy.views) == (4, 8)


def test_random_crops_keep_to_their_area_and_aspect():
    policy = RandomCrop(least=0.25, most=0.5, flip=0)
    for seed in range(40):
        found = policy(PHOTO, seed, 0).image
        height, width = found.shape[:2]
        assert 0.22 < height * width / (60 * 90) < 0.54
        assert 0.7 < width / height < 1.4


def test_a_jitter_of_nothing_is_the_image():
    still = ColourJitter(brightness=0, contrast=0, saturation=0, hue=0)
    np.testing.assert_array_equal(still(PHOTO, 3, 0).image, PHOTO)


def test_torch_draws_as_if_no_view_had_been_made():
    import torch

    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    ColourJitter()(PHOTO, 1, 0)
    assert torch.equal(torch.rand(3), wanted)


def test_cutmix_pastes_one_box_and_shares_the_label_by_its_area():
    shares = []
    for seed in range(30):
        view = CutMix()(PHOTO, np.full_like(OTHER, 300 % 256), seed, 0)
        pasted_there = (view.image == 300 % 256).all(2)
        rows, columns = np.flatnonzero(pasted_there.any(1)), np.flatnonzero(pasted_there.any(0))
        if len(rows):
            assert pasted_there[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        assert view.share == pytest.approx(1 - pasted_there.mean())
        np.testing.assert_array_equal(view.image[~pasted_there], PHOTO[~pasted_there])
        shares.append(view.share)
    assert min(shares) < 0.4
    assert max(shares) > 0.9


def test_superpixels_are_pasted_whole():
    pytest.importorskip("skimage")
    halves = np.zeros((60, 90, 3), np.uint8)
    halves[:, 45:] = (250, 20, 20)
    taken = set()
    for seed in range(12):
        view = SuperpixelMix(segments=2)(np.full((60, 90, 3), 99, np.uint8), halves, seed, 0)
        from_other = (view.image != 99).any(2)
        assert view.share == pytest.approx(1 - from_other.mean())
        taken.add(round(float(from_other.mean()), 1))
    assert taken <= {0.0, 0.5, 1.0}
    assert 0.5 in taken


def test_a_missing_library_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'frostbench\[superpixels\]'"):
        SuperpixelMix()(PHOTO, OTHER, 0, 0)


def test_pasting_by_hand():
    mask = np.zeros((60, 90), bool)
    mask[:15] = True
    view = pasted(PHOTO, np.zeros((60, 90, 3), np.uint8), mask)
    assert view.share == 0.75
    assert not view.image[:15].any()
    np.testing.assert_array_equal(view.image[15:], PHOTO[15:])


def test_transplanted_patches_are_the_most_salient():
    salient = np.zeros((2, 3))
    salient[1, 2], salient[0, 0] = 2.0, 1.0
    view = Transplant(share=0.34, grid=3)(PHOTO, np.zeros_like(OTHER), salient)
    kept = view.image.any(2) | ~PHOTO.any(2)
    wanted = np.zeros((60, 90), bool)
    wanted[30:, 60:], wanted[:30, :30] = True, True
    assert kept[wanted].all()
    assert not view.image[~wanted].any()
    assert view.share == 1.0


def test_occlusion_finds_the_patch_that_matters():
    import torch

    class Corner:
        """Return the red of the lower right quarter and a constant."""

        def embed(self, batch):
            red = batch[:, 0, 16:, 16:].float().mean(dim=(1, 2))
            return {"avg": torch.stack([red, torch.full_like(red, 50.0)], 1)}

    image = np.zeros((40, 40, 3), np.uint8)
    image[20:, 20:, 0] = 255
    found = occlusion(Corner(), image, 32, 2, batch=3)
    assert found[1, 1] > 0.01
    np.testing.assert_allclose(found.ravel()[:3], 0, atol=1e-9)


def test_attention_is_averaged_over_the_cells():
    import torch

    np.testing.assert_allclose(resampled(torch.arange(16.0).view(4, 4), 2), [[2.5, 4.5], [10.5, 12.5]])


def test_policies_are_read_by_name():
    assert set(kinds()) == {policy.model_fields["kind"].default for policy in POLICIES}
    assert read_policy("random_crop", {"least": 0.5}).text == "random_crop(least=0.5, most=1.0, flip=0.5)"
    with pytest.raises(ValueError, match=r"a policy must be one of flip, crops.*got zoom"):
        read_policy("zoom", {})
    with pytest.raises(ValueError, match=r"least: Input should be less than or equal to 1"):
        read_policy("random_crop", {"least": 2})
    with pytest.raises(ValueError, match=r"the settings of cutmix are alpha, .*got alfa=3 \(alfa: Extra"):
        read_policy("cutmix", {"alfa": 3})
    with pytest.raises(ValueError, match=r"flip has no settings, got alfa=3"):
        read_policy("flip", {"alfa": 3})
