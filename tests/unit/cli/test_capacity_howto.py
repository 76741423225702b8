"""Execution of the commands in the how-to about capacity."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from support.howto_pages import HowToPage
from support.persistent_cluster import configure_persistent_platform
from support.terminal import RunOpendrs


def test_commands_of_the_page_succeed(
    opendrs: RunOpendrs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_persistent_platform(
        monkeypatch, tmp_path / "opendrs.toml", tmp_path / "record.sqlite"
    )

    def run(command: str) -> None:
        answer = opendrs(*shlex.split(command)[1:])
        assert answer.status == 0, (command, answer.err)

    HowToPage("capacity.md").run({"opendrs": run})
