"""Explanations of recorded decisions in which something is unknown."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

from opendrs.controller import excluded_nodes, explain
from opendrs.controller.explanation import decision_text
from opendrs.controller.serialization import cycle_record
from opendrs.controller.stay_reasons import StayReason
from opendrs.controller.views.reasons import reason_documents
from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    Disk,
    FailedMigration,
    GuestId,
    GuestState,
    Limits,
    LiveMigration,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Protection,
    Snapshot,
    Storage,
    StorageGroup,
)
from opendrs.policies import Balance, Decision, DecisionReason, decide
from opendrs.rules import hold_rules
from support.builders import NOON, cluster, guest_ids
from support.recorded_cycles import decided


def test_reason_of_a_decision_is_in_words_unless_it_is_unknown() -> None:
    known = DecisionReason.SAVES_POWER.value

    assert decision_text({"reason": known, "detail": ""}) == (
        "drains nodes to save power"
    )
    assert decision_text({"reason": "of-a-newer-version", "detail": "two nodes"}) == (
        "of-a-newer-version: two nodes"
    )


def test_unknown_figures_are_explained() -> None:
    snapshot = cluster({"a": 0.1, "b": 0.1}, {})
    node = snapshot.nodes[NodeId("b")]
    unknown = replace(node, state=NodeState.UNKNOWN, capacity=None)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, node.id: unknown})
    decision = Decision(
        DecisionReason.METRICS_MISSING,
        None,
        before={"imbalance": math.nan, "overfull_gib": 2.25},
    )
    record = cycle_record(
        "run", NOON, snapshot, policy=Balance(), memory=None, decision=decision
    )

    found, whole = explain(record, "b"), explain(record, None)

    assert found is not None
    assert "cpu: unknown" in found.details
    assert whole is not None
    assert "imbalance: unknown now, unknown after" in whole.details
    assert "memory above what nodes may hold (GiB): 2.2 now, 2.2 after" in whole.details


def test_excluded_nodes_are_grouped_by_their_cause() -> None:
    only = NodeAffinity(guests=guest_ids("one"), nodes={NodeId("a"): 0, NodeId("d"): 0})
    apart = AntiAffinity(guests=guest_ids("one", "two"))
    nodes: dict[str, float | None] = {"a": 0.8, "b": 0.1, "c": 0.1, "d": 0.1}
    guests = {"one": ("a", 0.4), "two": ("d", 0.1), "three": ("a", 0.2)}
    snapshot = cluster(nodes, guests, [only, apart])
    record = decided(snapshot)
    (step,) = [
        each
        for each in record.document["decision"]["steps"]  # type: ignore[index]
        if each["guest"] == "three"
    ]

    found = excluded_nodes(record, "one")

    assert found is not None
    assert list(found.values()) == [["b", "c"], ["d"]]
    assert "anti-affinity of one to two" in found
    assert excluded_nodes(record, step["id"]) == {}
    assert excluded_nodes(record, "a") is None


SOFT = AntiAffinity(guests=guest_ids("one", "two"), strict=False)
ONLY = NodeAffinity(guests=guest_ids("four"), nodes={NodeId("a"): 0})
PINNED = Pin(guests=guest_ids("five"))


def placed() -> Snapshot:
    """Return a balanced cluster in which guests stay for different reasons."""
    guests = {
        "one": ("a", 0.1),
        "two": ("b", 0.1),
        "three": ("a", 0.1),
        "four": ("a", 0.1),
        "five": ("b", 0.1),
        "six": ("b", 0.1),
    }
    snapshot = cluster({"a": 0.4, "b": 0.4}, guests, [SOFT, ONLY, PINNED])
    stopped = replace(snapshot.guests[GuestId("six")], state=GuestState.STOPPED)
    return replace(snapshot, guests={**snapshot.guests, stopped.id: stopped})


def test_page_of_a_guest_has_the_reason_of_the_list_of_reasons() -> None:
    snapshot = placed()
    record = decided(snapshot)

    listed = {
        guest: each["code"]
        for each in reason_documents(record, snapshot)
        for guest in each["guests"]
    }

    found = {guest: explain(record, guest) for guest in snapshot.guests}
    assert {name: each and each.code for name, each in found.items()} == listed
    assert listed == {
        "one": StayReason.SOFT_RULE,
        "two": StayReason.SOFT_RULE,
        "three": StayReason.NOT_CHOSEN,
        "four": StayReason.NO_FEASIBLE_NODE,
        "five": StayReason.IMMOVABLE,
        "six": StayReason.NOT_RUNNING,
    }


def test_move_of_a_disk_does_not_hide_the_reason_of_its_guest() -> None:
    disks = (Disk(storage="full", size=30 * GIB, name="scsi0"),)
    group = StorageGroup(name="all", storages=("full", "empty"), threshold=0.8)
    storages = tuple(
        Storage(id=name, shared=True, capacity=100 * GIB, free=free * GIB)
        for name, free in (("full", 5), ("empty", 95))
    )
    plain = placed()
    nodes = {n: replace(x, storages=storages) for n, x in plain.nodes.items()}
    three = replace(plain.guests[GuestId("three")], disks=disks)
    snapshot = replace(plain, nodes=nodes, guests={**plain.guests, three.id: three})
    policy = Balance(limits=Limits(storage_groups=(group,)))
    decision = decide(policy, snapshot, None)
    record = cycle_record(
        "run", NOON, snapshot, policy=policy, memory=None, decision=decision
    )

    found = explain(record, "three")
    listed = {
        guest: each["code"]
        for each in reason_documents(record, snapshot)
        for guest in each["guests"]
    }

    assert decision.reason is DecisionReason.RELIEVES_STORAGE
    assert found is not None
    assert found.code == listed["three"] == StayReason.NOT_CHOSEN
    assert found.details[0].startswith(
        "step s1: disk-move of three (scsi0) from full to empty"
    )


def test_node_that_a_soft_rule_excludes_is_not_infeasible() -> None:
    found = explain(decided(placed()), "one")

    assert found is not None
    assert "feasible nodes: 0 of 1 others" in found.details
    assert not [each for each in found.details if each.startswith("infeasible")]
    (avoided,) = [each for each in found.details if each.startswith("avoided")]
    assert "b: soft anti-affinity of one to two" in avoided


def test_guest_that_is_to_join_another_may_move_to_its_node() -> None:
    # By hand: y fits on a beside x; x does not fit on b. Both count a once.
    pair = Affinity(guests=guest_ids("x", "y"))
    record = decided(
        cluster({"a": 0.8, "b": 0.9}, {"x": ("a", 0.4), "y": ("b", 0.1)}, [pair])
    )

    x, y = explain(record, "x"), explain(record, "y")

    assert x is not None
    assert y is not None
    assert (x.code, y.code) == (StayReason.NO_FEASIBLE_NODE, StayReason.NOT_CHOSEN)
    assert "feasible nodes: 0 of 1 others" in x.details
    assert "feasible nodes: 1 of 1 others" in y.details


def test_guest_that_is_held_back_has_the_cause_and_the_end() -> None:
    """Also where the policy plans nothing, and so skips no guest."""
    move = LiveMigration(GuestId("three"), NodeId("a"), NodeId("b"))
    failed = FailedMigration(
        migration=move,
        at=NOON - timedelta(minutes=10),
        detail="no convergence",
        targets=frozenset({NodeId("b")}),
        failures=1,
    )
    snapshot = placed()
    held = hold_rules(snapshot, [failed], Protection(retry_delay=3600))
    snapshot = replace(snapshot, rules=(*snapshot.rules, *held))
    record = decided(snapshot)

    found = explain(record, "three")
    listed = reason_documents(record, snapshot)

    assert found is not None
    (reason,) = [each for each in listed if "three" in each["guests"]]
    assert found.code == reason["code"] == StayReason.MIGRATION_FAILED
    for text in (found.answer, str(reason["detail"])):
        assert "held back until 2026-11-21 12:50 UTC" in text
        assert "migration to b failed at 2026-11-21 11:50 UTC: no convergence" in text
    assert "wait until the given time" in reason["change"]
