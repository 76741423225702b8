"""Further loads of the targets of migrations, checked before they start."""

from __future__ import annotations

from dataclasses import replace

from opendrs.guard import RejectionReason, check
from opendrs.model import (
    FurtherLoad,
    GuestId,
    Limits,
    LiveMigration,
    LoadAmounts,
    NodeId,
    Snapshot,
)
from support.builders import cluster

A, B = NodeId("a"), NodeId("b")
VM, OTHER = GuestId("vm"), GuestId("other")
MOVE = LiveMigration(VM, A, B)
LIMITS = Limits(loads=(FurtherLoad(name="network", threshold=0.6),))


def snapshot(
    target: LoadAmounts,
    guest: LoadAmounts,
    capacities: LoadAmounts = {"network": 1000.0},  # noqa: B006 - not modified
) -> Snapshot:
    """Return a guest on one of two nodes, and these loads of it and of the other."""
    plain = cluster({"a": 0.6, "b": 0.1}, {"vm": ("a", 0.1), "other": ("a", 0.1)})
    node = replace(plain.nodes[B], loads=target, load_capacities=capacities)
    guests = {
        name: replace(each, loads=guest if name == VM else {"network": 150.0})
        for name, each in plain.guests.items()
    }
    return replace(plain, nodes={**plain.nodes, B: node}, guests=guests)


def reason(snapshot: Snapshot, limits: Limits = LIMITS) -> RejectionReason | None:
    rejection = check([MOVE], snapshot, limits)
    return None if rejection is None else rejection.reason


def test_target_above_the_threshold_with_the_guest_is_rejected() -> None:
    # 0.6 of 1000 are allowed: 400 in use and 200 arriving, or 201.
    assert reason(snapshot({"network": 400.0}, {"network": 200.0})) is None
    above = snapshot({"network": 400.0}, {"network": 201.0})
    assert reason(above) is RejectionReason.LOAD_EXCEEDED
    assert reason(above, Limits()) is None


def test_guest_that_is_arriving_counts_in_full() -> None:
    plain = snapshot({"network": 400.0}, {"network": 100.0})
    arriving = replace(plain.guests[OTHER], migrating_to=B)
    both = replace(plain, guests={**plain.guests, OTHER: arriving})

    # 400 + 100 + 150 of 600
    assert reason(plain) is None
    assert reason(both) is RejectionReason.LOAD_EXCEEDED


def test_unknown_load_is_rejected_where_it_is_limited() -> None:
    missing = RejectionReason.METRICS_MISSING
    assert reason(snapshot({}, {"network": 1.0})) is missing
    assert reason(snapshot({"network": 1.0}, {})) is missing
    assert reason(snapshot({}, {}, capacities={})) is None


def test_load_that_is_only_balanced_is_not_limited() -> None:
    weighted = Limits(loads=(FurtherLoad(name="network", weight=1.0),))

    assert reason(snapshot({"network": 999.0}, {"network": 999.0}), weighted) is None
    assert reason(snapshot({}, {}), weighted) is None
