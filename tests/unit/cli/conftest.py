"""The command line in a directory of its own."""

from pathlib import Path

import pytest

from opendrs.cli.main import run
from support.terminal import CommandResult, RunOpendrs


@pytest.fixture
def opendrs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> RunOpendrs:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")

    def answer(*arguments: str) -> CommandResult:
        status = run(arguments)
        captured = capsys.readouterr()
        return CommandResult(status, captured.out, captured.err)

    return answer
