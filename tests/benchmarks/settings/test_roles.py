import pytest

from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.roles import role_of


def test_validation_is_a_name_of_the_select_role():
    assert [role_of(name) for name in ("validation", "select", "test")] == ["select", "select", "test"]
    with pytest.raises(SettingsError, match="must be validation or test, got 'calibrate'"):
        role_of("calibrate")
