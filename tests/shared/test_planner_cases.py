"""Policies on the recorded clusters on which a plan was wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from opendrs.config import read_snapshot
from opendrs.model import DEFAULT_LIMITS, PowerOff, PowerOn, Snapshot
from opendrs.policies import AutoRebalance, Balance, Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.optimize import Optimize
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from properties.test_small_clusters import require_best

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


UNKNOWN_NODES = CASES / "unknown-nodes.json"
UNMEASURED = {"n3", "n4"}


@pytest.mark.skipif(not UNKNOWN_NODES.exists(), reason=f"no {UNKNOWN_NODES}")
@pytest.mark.parametrize(
    "policy",
    [
        Balance(),
        AutoRebalance(hold=0, threshold=0.1),
        Optimize(),
        ThresholdRebalance(),
        Consolidate(manage_power=True),
    ],
    ids=lambda policy: policy.name,
)
def test_unmeasured_nodes_are_left_out_and_named(policy: Policy[Any]) -> None:
    snapshot = read_snapshot(UNKNOWN_NODES)

    decision = policy.decide(snapshot, policy.initial_memory())

    actions = [step.action for step in decision.plan.steps]
    moves = [each for each in actions if not isinstance(each, PowerOn | PowerOff)]
    used = {node for each in moves for node in (each.source, each.target)}
    used |= {each.node for each in actions if isinstance(each, PowerOn | PowerOff)}
    assert used
    assert not used & UNMEASURED
    assert set(decision.unmeasured) == UNMEASURED
