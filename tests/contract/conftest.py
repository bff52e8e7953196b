"""One folder for all cases of a module: each case begins anew in it, the stand-in's server stays."""

import pytest


@pytest.fixture(scope="module")
def contract_home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")
