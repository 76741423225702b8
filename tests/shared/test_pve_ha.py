"""Comparison of logs and rules with recordings of Proxmox VE, byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opendrs.model import NodeId
from opendrs.pve_ha.simulator import read_scenario, run_drill
from support.oracles.pve_canonical_form import canonical_form

PROJECT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("OPENDRS_SHARED", PROJECT.parent / "shared"))
RECORDINGS = SHARED / "data" / "pve-ha"
NODES = [NodeId("node1"), NodeId("node2"), NodeId("node3")]
pytestmark = pytest.mark.shared


def recordings(folder: str, pattern: str) -> list[object]:
    """Return the matching paths, or one parameter that is skipped with a reason."""
    paths = sorted((RECORDINGS / folder).glob(pattern))
    if not paths:
        reason = f"no cases in {RECORDINGS / folder}; set OPENDRS_SHARED"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=path.name) for path in paths]


@pytest.mark.parametrize(
    "directory", [*recordings("scenarios", "*/"), *recordings("generated", "*/")]
)
def test_drill_log_equals_log_of_proxmox_ve(directory: Path) -> None:
    expected = (directory / "log.expect").read_bytes()

    log = run_drill(read_scenario(directory)).log()

    assert log.encode() == expected


@pytest.mark.parametrize("file", recordings("rules", "*.cfg"))
def test_canonical_rules_equal_those_of_proxmox_ve(file: Path) -> None:
    expected = Path(f"{file}.expect").read_bytes()

    shown = canonical_form(file.read_text(encoding="utf-8"), NODES)

    assert shown.encode() == expected
