"""Relocations of stopped guests: what the guard allows, and what they change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.controller.in_flight import OpenMigrations, load_open_migrations
from opendrs.guard import RejectionReason, check, check_concurrency
from opendrs.model import (
    Guest,
    GuestId,
    GuestState,
    Limits,
    Mobility,
    NodeId,
    NodeState,
    Pin,
    Relocation,
    Snapshot,
    action_as_text,
    action_from_text,
)
from opendrs.store import MemoryStore
from support.builders import cluster, guest, guest_ids

MOVE = Relocation(GuestId("a"), NodeId("n1"), NodeId("n2"))


def stopped_guest(**changes: object) -> Guest:
    plain = guest("a", "n1", None, state=GuestState.STOPPED)
    return replace(plain, **changes)  # type: ignore[arg-type]


def with_stopped_guest(**changes: object) -> Snapshot:
    snapshot = cluster({"n1": 0.1, "n2": 0.9}, {})
    return replace(snapshot, guests={GuestId("a"): stopped_guest(**changes)})


def test_relocation_needs_no_memory() -> None:
    assert check([MOVE], with_stopped_guest(), Limits()) is None


def test_running_relocation_counts_at_its_nodes() -> None:
    relocated = with_stopped_guest().guests[GuestId("a")]
    other = replace(relocated, id=GuestId("b"), migrating_to=NodeId("n2"))
    busy = replace(
        with_stopped_guest(), guests={relocated.id: relocated, other.id: other}
    )

    rejection = check_concurrency([MOVE], busy, Limits(max_migrations_per_node=1))

    assert rejection is not None
    assert rejection.reason is RejectionReason.NODE_MIGRATION_LIMIT


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": GuestState.RUNNING}, RejectionReason.STALE_PLAN),
        ({"node": NodeId("n2")}, RejectionReason.STALE_PLAN),
        ({"lock": "backup"}, RejectionReason.GUEST_LOCKED),
        ({"managed_by": "CRS"}, RejectionReason.MANAGED_ELSEWHERE),
        ({"mobility": Mobility.NONE}, RejectionReason.MIGRATION_NOT_ALLOWED),
        ({"cpu_model": "EPYC"}, RejectionReason.CPU_INCOMPATIBLE),
    ],
)
def test_relocation_that_must_not_start_is_rejected(
    changes: dict[str, object], reason: RejectionReason
) -> None:
    rejection = check([MOVE], with_stopped_guest(**changes), Limits())

    assert rejection is not None
    assert rejection.reason is reason


def test_relocation_of_a_pinned_guest_is_rejected() -> None:
    snapshot = replace(with_stopped_guest(), rules=(Pin(guests=guest_ids("a")),))

    rejection = check([MOVE], snapshot, Limits())

    assert rejection is not None
    assert rejection.reason is RejectionReason.MIGRATION_NOT_ALLOWED


def test_relocation_to_a_node_in_maintenance_is_rejected() -> None:
    snapshot = with_stopped_guest()
    closed = replace(snapshot.nodes[NodeId("n2")], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, closed.id: closed})

    rejection = check([MOVE], snapshot, Limits())

    assert rejection is not None
    assert rejection.reason is RejectionReason.TARGET_OFFLINE


def test_relocation_changes_no_usage() -> None:
    snapshot = with_stopped_guest()

    after = snapshot.apply(MOVE)

    assert after.guests[GuestId("a")].node == "n2"
    assert after.nodes == snapshot.nodes


def test_relocation_does_not_count_as_a_migration_in_progress() -> None:
    store = MemoryStore()

    OpenMigrations(store).start([MOVE], with_stopped_guest())

    assert load_open_migrations(store) == ()


def test_relocation_is_read_as_it_was_recorded() -> None:
    assert action_from_text(action_as_text(MOVE)) == MOVE
