"""`optimize` and `repair` on the recorded clusters on which a search was wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opendrs.config import read_snapshot
from opendrs.model import DEFAULT_LIMITS, Snapshot
from properties.test_small_clusters import require_best, require_fewest_repairs

pytestmark = pytest.mark.shared
BESIDE = Path(__file__).parents[3] / "shared"
CASES = Path(os.environ.get("OPENDRS_SHARED") or BESIDE) / "data" / "planner-cases"
PATHS = sorted(CASES.glob("*.json"))
MAX_PLACEMENTS = 1_000  # what the oracle tries in about a second


def tiny(path: Path) -> Snapshot:
    snapshot = read_snapshot(path)
    if len(snapshot.nodes) ** len(snapshot.guests) > MAX_PLACEMENTS:
        pytest.skip("too many placements to try all of them")
    return snapshot


@pytest.mark.skipif(not PATHS, reason=f"no clusters in {CASES}")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_plan_of_a_tiny_case_is_best(path: Path) -> None:
    snapshot = tiny(path)

    require_best(snapshot, DEFAULT_LIMITS)
    require_fewest_repairs(snapshot, DEFAULT_LIMITS)
