import pytest

from frostbench.heads.stepped.scale import default_scale, least_scale


@pytest.mark.parametrize(
    ("classes", "wanted"), [(2, 10.0), (3, 10.134), (10, 16.388), (100, 22.774), (1000, 27.6), (10_000, 30.0)]
)
def test_the_scale_follows_from_the_class_count(classes, wanted):
    assert default_scale(classes) == pytest.approx(wanted, abs=2e-3)


@pytest.mark.parametrize(
    ("classes", "at_90", "at_99", "at_999"),
    [(2, 1.099, 2.298, 3.453), (3, 1.927, 3.526, 5.067), (10, 3.955, 6.113, 8.194), (1000, 9.095, 11.49, 13.8)],
)
def test_the_least_scale_matches_the_vectors(classes, at_90, at_99, at_999):
    found = [least_scale(classes, p) for p in (0.9, 0.99, 0.999)]
    assert found == pytest.approx([at_90, at_99, at_999], abs=2e-3)


def test_one_class_has_no_scale():
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        default_scale(1)
