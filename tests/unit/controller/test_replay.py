"""Recorded decisions of every policy are repeated byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.config.policy_loading import build_policy
from opendrs.controller import evaluations, replay
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.serialization import cycle_record
from opendrs.errors import StoreError
from opendrs.model import DEFAULT_LIMITS, AntiAffinity, Network, NodeId, Snapshot
from opendrs.policies import BUILT_IN_POLICIES, Policy
from opendrs.ports import CycleRecord
from opendrs.simulation import SimulatedClock, SimulatedPlatform, demo_cluster
from opendrs.store import Access, MemoryStore, SqliteStore
from support.builders import NOON, cluster, guest_ids
from support.strategies import snapshots

IMBALANCED = cluster({"a": 0.9, "b": 0.1}, {"vm1": ("a", 0.3), "vm2": ("a", 0.2)})
LIMITS = replace(
    DEFAULT_LIMITS,
    networks=(Network(name="uplink", nodes=(NodeId("a"),), max_parallel_migrations=1),),
)


def recorded(
    policy: Policy[Any], snapshot: Snapshot, store: MemoryStore | None = None
) -> CycleRecord:
    """Return the record of one cycle, as a store returns it."""
    kept = store or MemoryStore()
    evaluation = next(PolicyDecisionSource(policy, kept).evaluations(snapshot))
    kept.record_cycle(
        cycle_record(
            "run",
            NOON,
            snapshot,
            policy=policy,
            memory=evaluation.memory,
            decision=evaluation.decision,
        )
    )
    return list(kept.cycles())[-1]


@pytest.mark.parametrize("name", BUILT_IN_POLICIES)
def test_decisions_with_memory_are_repeated(name: str) -> None:
    settings: dict[str, object] = {"hold": 2} if name == "auto-rebalance" else {}
    policy, store = build_policy(name, settings, LIMITS), MemoryStore()
    clock = SimulatedClock()
    platform = SimulatedPlatform(demo_cluster(1), clock)

    for _ in range(4):
        found = replay(recorded(policy, platform.observe(), store))

        assert found.is_same
        assert found.policy == name
        clock.sleep(300)


VIOLATED = replace(IMBALANCED, rules=(AntiAffinity(guests=guest_ids("vm1", "vm2")),))


def test_repair_that_precedes_a_policy_is_repeated() -> None:
    found = replay(recorded(build_policy("balance"), VIOLATED))

    assert found.recorded["reason"] == "repairs-rules"
    assert found.is_same


def test_decision_with_rules_about_absent_guests_is_repeated() -> None:
    """The controller goes on when a guest of a rule is deleted."""
    rules = (AntiAffinity(guests=guest_ids("vm1", "deleted")),)
    found = replay(recorded(build_policy("balance"), replace(IMBALANCED, rules=rules)))

    assert found.is_same


def test_decision_recorded_before_there_was_a_repair_is_repeated() -> None:
    policy = build_policy("balance")
    record = cycle_record(
        "run",
        NOON,
        VIOLATED,
        policy=policy,
        memory=None,
        decision=policy.decide(VIOLATED, None),
    )
    settings: dict[str, object] = dict(record.document["settings"])  # type: ignore[call-overload]
    del settings["repair_first"]
    former = replace(record, document={**record.document, "settings": settings})

    found = replay(former)

    assert found.recorded["reason"] == "improves-balance"
    assert found.is_same


@pytest.mark.parametrize("name", BUILT_IN_POLICIES)
@settings(max_examples=40)
@given(st.data())
def test_decisions_about_drawn_clusters_are_repeated(
    name: str, data: st.DataObject
) -> None:
    found = replay(recorded(build_policy(name), data.draw(snapshots())))

    event(str(found.recorded["reason"]))
    assert found.is_same


def test_record_in_a_file_is_repeated(tmp_path: Any) -> None:  # noqa: ANN401
    with SqliteStore(tmp_path / "record.sqlite") as store:
        store.record_cycle(recorded(build_policy("balance"), IMBALANCED))

    with SqliteStore(tmp_path / "record.sqlite", Access.READ) as store:
        (cycle,) = store.cycles()
        assert replay(cycle).is_same


def changed(cycle: CycleRecord, **parts: object) -> CycleRecord:
    return replace(cycle, document={**cycle.document, **parts})


def test_other_decision_is_found() -> None:
    cycle = recorded(build_policy("balance"), IMBALANCED)
    decision = cycle.document["decision"]
    assert isinstance(decision, Mapping)

    found = replay(changed(cycle, decision={**decision, "steps": []}))

    assert not found.is_same
    assert found.repeated["steps"]


@pytest.mark.parametrize(
    "parts",
    [
        {"settings": {}},
        {"settings": {"limits": {"cooldown": "x"}}},
        {"settings": {"limits": {}, "threshold": "x"}},
        {"settings": {"limits": {}, "former": 1}},
        {"decision": {"policy": "gone"}},
        {"decision": []},
        {"snapshot": {"nodes": 1}},
    ],
)
def test_record_that_cannot_be_replayed_raises_store_error(
    parts: dict[str, object],
) -> None:
    cycle = recorded(build_policy("balance"), IMBALANCED)

    with pytest.raises(StoreError, match="store: cycle run: cannot be replayed"):
        replay(changed(cycle, **parts))


def test_evaluation_does_not_change_the_record() -> None:
    store, policy = MemoryStore(), build_policy("auto-rebalance")
    first = recorded(policy, IMBALANCED, store)
    next(evaluations(IMBALANCED, policy, store))

    assert replay(first).is_same
