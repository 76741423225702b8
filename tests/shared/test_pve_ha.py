"""Whatever the original was seen to do, told and decided byte for byte alike."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opendrs.ha.fencing import (
    FenceConfigError,
    fence_commands,
    fencing_text,
    read_fencing,
)
from opendrs.ha.rules import report
from opendrs.model import NodeId
from opendrs.sim.drill import hold_drill, read_scenario

PROJECT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("OPENDRS_SHARED", PROJECT.parent / "shared"))
CASES = SHARED / "data" / "pve-ha"
NODES = [NodeId("node1"), NodeId("node2"), NodeId("node3")]

pytestmark = pytest.mark.shared


def cases(folder: str, pattern: str) -> list[object]:
    """Return the paths that match, or one that is skipped and says why."""
    found = sorted((CASES / folder).glob(pattern))
    if not found:
        why = f"no cases in {CASES / folder}; set OPENDRS_SHARED"
        return [pytest.param(None, marks=pytest.mark.skip(reason=why))]
    return [pytest.param(path, id=path.name) for path in found]


@pytest.mark.parametrize(
    "directory", [*cases("scenarios", "*/"), *cases("generated", "*/")]
)
def test_a_drill_tells_what_the_original_tells(directory: Path) -> None:
    expected = (directory / "log.expect").read_bytes()

    log = hold_drill(read_scenario(directory)).log()

    assert log.encode() == expected


@pytest.mark.parametrize("file", cases("rules", "*.cfg"))
def test_rules_mean_what_they_mean_in_the_original(file: Path) -> None:
    expected = Path(f"{file}.expect").read_bytes()

    shown = report(file.read_text(encoding="utf-8"), NODES)

    assert shown.encode() == expected


@pytest.mark.parametrize("file", cases("fencing", "*.cfg"))
def test_fence_devices_are_used_as_in_the_original(file: Path) -> None:
    expected = Path(f"{file}.expect").read_bytes()

    shown = _fencing(file.read_text(encoding="utf-8"), f"fence_cfgs/{file.name}")

    assert shown.encode() == expected


def _fencing(text: str, name: str) -> str:
    """Return the commands of all attempts, up to the first that has none."""
    try:
        devices = read_fencing(text, name)
    except FenceConfigError as error:
        return f"[FenceConfig] {error}\n"
    assert read_fencing(fencing_text(devices), name) == devices
    lines, attempt, left = [], 0, True
    while left:
        lines.append(f"[try] {attempt}")
        commands = {
            node: fence_commands(devices.values(), node, attempt) for node in NODES
        }
        for node, found in commands.items():
            lines += [f"[{node}-cmd] {command}" for command in found or ["none"]]
        attempt, left = attempt + 1, any(commands.values())
    return "".join(f"{line}\n" for line in lines)
