"""Further loads in the commands `plan`, `check` and `what-if`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from support.builders import partly_compared
from support.terminal import RunOpendrs

WEIGHTED = """
[policy]
name = "optimize"

[[limits.loads]]
name = "network"
weight = 1.0
"""


@pytest.fixture
def weighted() -> tuple[str, str, str]:
    """Return the arguments for a cluster, and a configuration with a further load."""
    write_snapshot(partly_compared(), Path("c.json"))
    Path("opendrs.toml").write_text(WEIGHTED)
    return "c.json", "--config", "opendrs.toml"


def test_headline_metrics_and_distance_of_a_plan_agree(
    opendrs: RunOpendrs, weighted: tuple[str, str, str]
) -> None:
    text = opendrs("plan", *weighted, "--all").out
    found = json.loads(opendrs("plan", *weighted, "--format", "json").out)

    rows = [" ".join(row.split()) for row in text.splitlines()]
    name = "imbalance (RMS deviation from the balanced load)"
    assert f"{name} 0.408 → 0.186;" in rows[0]
    assert any(f"{name}: 0.1863 with this plan; at least" in row for row in rows)
    assert f"{name} 0.408 0.186" in rows
    measured = [found[when]["rms_imbalance"] for when in ("before", "after")]
    assert measured == pytest.approx([0.40825, 0.18634], abs=1e-5)
