import pytest

from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.roles import role_of


@pytest.mark.parametrize(("name", "role"), [("validation", "select"), ("select", "select"), ("test", "test")])
def test_validation_is_a_name_of_the_select_role(name, role):
    assert role_of(name) == role


@pytest.mark.parametrize("name", ["train", "calibrate", "holdout", ""])
def test_other_names_are_refused(name):
    with pytest.raises(SettingsError, match=f"must be validation or test, got '{name}'"):
        role_of(name)
