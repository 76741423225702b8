"""Exceptions of a cluster and its controller, and why nothing is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opendrs.config.controller_settings import Mode
from opendrs.controller.modes import API_BREAKER_KEY, EffectiveMode, ModeSource
from opendrs.controller.protection import BREAKER_KEY
from opendrs.controller.status import FAILED, LastCycle
from opendrs.controller.views import (
    OperatingState,
    exception_documents,
    inaction_document,
)
from opendrs.model import Action, Affinity, AntiAffinity, Node, NodeId, PowerOn, StepId
from opendrs.ports import CycleRecord, Outcome, StepRecord
from support.builders import NOON, cluster, guest_ids, node
from support.recorded_cycles import decided
from support.simulated_cluster import migration

QUIET = cluster({"a": 0.2, "b": 0.2}, {"one": ("a", 0.1), "two": ("a", 0.1)})
LAST = LastCycle(ended_at=NOON, seconds=1, reason="balanced", detail="", steps=0)


def found(record: CycleRecord | None = None, **changes: Any) -> list[tuple[str, ...]]:  # noqa: ANN401
    """Return code, severity and subject of each exception."""
    state = OperatingState(
        **{"now": NOON, "is_running": True, "interval": 60, "entries": {}, **changes}
    )
    documents = exception_documents(state, record or decided(QUIET))
    return [(each["code"], each["severity"], each["subject"]) for each in documents]


def test_quiet_cluster_has_no_exceptions() -> None:
    assert found(cycle=LAST) == []


def test_exceptions_of_the_controller() -> None:
    entries = {
        BREAKER_KEY: {"detail": "5 failed steps"},
        API_BREAKER_KEY: {"detail": "10 failed requests"},
    }
    failed = replace(LAST, reason=FAILED, detail="no route")

    assert found(is_running=False, cycle=failed, entries=entries) == [
        ("controller-not-running", "error", ""),
        ("cycle-failed", "error", ""),
        ("breaker-open", "error", ""),
        ("api-breaker-open", "error", ""),
    ]


@pytest.mark.parametrize(
    ("age", "open_steps", "stale"),
    [(180, False, False), (181, False, True), (181, True, False)],
)
def test_metrics_are_stale_after_three_intervals(
    age: int,
    open_steps: bool,  # noqa: FBT001
    stale: bool,  # noqa: FBT001
) -> None:
    now = NOON + timedelta(seconds=age)

    codes = [each[0] for each in found(now=now, open_steps=open_steps)]

    assert codes == (["metrics-stale"] if stale else [])


def test_exceptions_of_the_cluster_have_errors_first() -> None:
    snapshot = cluster(
        {"a": 0.97, "b": None},
        {"one": ("a", 0.1), "two": ("a", 0.1), "three": ("b", 0.1)},
        rules=[
            Affinity(guests=guest_ids("one", "three"), strict=False, name="near"),
            AntiAffinity(guests=guest_ids("one", "two"), name="apart"),
        ],
    )
    unknown, busy = Node(id=NodeId("c")), node("d", 0.1, jobs=("backup", "other"))
    snapshot = replace(
        snapshot, nodes={**snapshot.nodes, unknown.id: unknown, busy.id: busy}
    )

    assert found(decided(snapshot), stand_back_jobs=("backup",)) == [
        ("rule-violated", "error", "apart"),
        ("node-unreachable", "error", "c"),
        ("rule-violated", "warning", "near"),
        ("node-over-limit", "warning", "a"),
        ("metrics-missing", "warning", "b"),
        ("node-busy", "warning", "d"),
    ]


def test_failed_steps_are_exceptions_the_newest_first() -> None:
    actions: list[Action] = [
        migration("one", "a", "b"),
        PowerOn(NodeId("b")),
        migration("two", "a", "b"),
    ]
    outcomes = [Outcome.FAILED, Outcome.LOST, Outcome.DONE]
    records = [
        StepRecord(
            run="run",
            step=StepId(str(number)),
            action=action,
            intended_at=NOON + timedelta(seconds=number),
            outcome=outcome,
        )
        for number, (action, outcome) in enumerate(zip(actions, outcomes, strict=True))
    ]

    assert found(recent_steps=records) == [
        ("move-failed", "warning", "b"),
        ("move-failed", "warning", "one"),
    ]


@pytest.mark.parametrize(
    ("cycle", "mode", "expected"),
    [
        (None, Mode.ADVISE, "no-cycle"),
        (LAST, Mode.ADVISE, "balanced"),
        (replace(LAST, reason="of-the-future"), Mode.ADVISE, "of-the-future"),
        (replace(LAST, reason=FAILED), Mode.ADVISE, "cycle-failed"),
        (replace(LAST, steps=2), Mode.OBSERVE, "mode-observe"),
        (replace(LAST, steps=2), Mode.ADVISE, "plan-ended"),
    ],
)
def test_inaction_has_the_code_of_its_reason(
    cycle: LastCycle | None, mode: Mode, expected: str
) -> None:
    effective = EffectiveMode(mode=mode, source=ModeSource.OPERATOR, detail="")

    document = inaction_document(cycle, effective, [])

    assert document is not None
    assert document["reason"] == expected
