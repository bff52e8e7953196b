"""One folder for all cases of a module: each case begins anew in it, the stand-in's server stays."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def contract_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")
