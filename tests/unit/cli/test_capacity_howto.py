"""Execution of the commands in the how-to about capacity."""

from __future__ import annotations

import shlex

from support.howto_pages import HowToPage
from support.terminal import RunOpendrs


def test_commands_of_the_page_succeed(opendrs: RunOpendrs) -> None:
    def run(command: str) -> None:
        answer = opendrs(*shlex.split(command)[1:])
        assert answer.status == 0, (command, answer.err)

    HowToPage("capacity.md").run({"opendrs": run})
