"""The secret that marks jobs as this user's is one of the tests' own."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
