"""The command line run in this process, with a home of its own."""

from pathlib import Path

import pytest

from providers.cli import main


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPUS_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main.main(arguments)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err
