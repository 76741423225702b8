"""The README: its commands work as written, and it claims what works today."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from opendrs.cli.platforms import PLATFORMS
from support.terminal import RunOpendrs
from unit.cli.conftest import opendrs as opendrs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in re.findall(r"^    (opendrs .*)$", README, re.MULTILINE)
]
NEEDS_HYPERVISORS = ("lab", "opendrs.toml")
LISTED = {
    "check",
    "connect",
    "show",
    "place",
    "plan",
    "compare",
    "apply",
    "run",
    "mode",
    "plans",
    "approve",
    "what-if",
    "drill",
}


@pytest.mark.parametrize(
    "arguments",
    [each for each in COMMANDS if not set(each) & set(NEEDS_HYPERVISORS)],
    ids=" ".join,
)
def test_each_command_of_the_readme_works_as_written(
    opendrs: RunOpendrs, arguments: list[str]
) -> None:
    example = README.split("```json\n")[1].split("```")[0]
    Path("cluster.json").write_text(example)

    answer = opendrs(*arguments)

    assert (answer.status, answer.err) == (0, "")


def test_the_readme_has_commands_of_every_kind() -> None:
    assert {each[0] for each in COMMANDS} == LISTED


def test_the_configuration_of_the_readme_is_understood(opendrs: RunOpendrs) -> None:
    """Without the platform, which needs its library and its hosts."""
    example = README.split("```toml\n")[1].split("```")[0]
    policy = example[example.index("[policy]") : example.index("[[rules]]")]
    Path("opendrs.toml").write_text(policy)

    assert opendrs("plan", "demo").out.startswith("balance: ")


def test_every_kind_of_platform_is_in_the_readme() -> None:
    rows = [line.lower() for line in README.splitlines() if line[:1] == "|"]

    for kind in PLATFORMS.kinds:
        word = {"file": "snapshot file", "command": "command-platform"}.get(kind, kind)
        assert any(word in row for row in rows), kind


def test_the_links_of_the_readme_lead_somewhere() -> None:
    paths = re.findall(r"\]\(([^)#:]+)", README)

    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []
