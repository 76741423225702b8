"""Load of a placement, compared with plain Python and with calculations by hand."""

from __future__ import annotations

import random
from dataclasses import asdict, replace

import pytest

from opendrs.model import (
    GuestId,
    GuestState,
    LiveMigration,
    NodeId,
    NodeState,
    Snapshot,
    Usage,
)
from opendrs.simulation.backtest import LoadRecord
from opendrs.simulation.backtest.load import PlacementLoad, placement_load, placement_of
from support.oracles.placement_load import expected_load
from support.recorded_load import recorded_snapshots

A, B, V = NodeId("a"), NodeId("b"), GuestId("v")


def load_of(snapshots: list[Snapshot], placed: Snapshot) -> PlacementLoad | None:
    record = LoadRecord(snapshots, "x")
    return placement_load(record, placement_of(record, 1, placed))


def test_demand_above_capacity_is_contention_of_all_guests_of_the_node() -> None:
    snapshots = recorded_snapshots(
        {
            "v": ("a", [0.6, 0.8]),
            "w": ("a", [0.3, 0.3]),
            "x": ("b", [0.2, 0.2]),
        }
    )

    load = load_of(snapshots, snapshots[1])

    # a: 0.1 + 0.8 + 0.3 = 1.2, with two guests; b: 0.1 + 0.2 = 0.3. The mean is 0.75,
    # the standard deviation 0.45.
    assert load is not None
    assert (load.contended, load.contended_cpu, load.contended_memory) == (2, 2, 2)
    assert load.highest == pytest.approx(1.2)
    assert load.imbalance == pytest.approx(0.45 / 0.75)


def test_full_node_is_not_contended() -> None:
    snapshots = recorded_snapshots({"v": ("a", [0.6, 0.6]), "w": ("a", [0.3, 0.3])})

    load = load_of(snapshots, snapshots[1])

    assert load is not None
    assert load.highest == pytest.approx(1.0)
    assert load.contended == 0


def test_migrating_guest_uses_memory_on_both_nodes_and_cores_on_its_source() -> None:
    snapshots = recorded_snapshots({"v": ("a", [0.5, 0.5]), "w": ("b", [0.6, 0.6])})
    moving = snapshots[1].with_in_flight(LiveMigration(V, A, B))

    load = load_of(snapshots, moving)

    # Memory of b: 0.1 + 0.6 + 0.5 = 1.2; cores of b: 0.7.
    assert load is not None
    assert load.highest == pytest.approx(1.2)
    assert (load.contended, load.contended_cpu, load.contended_memory) == (1, 0, 1)


def test_unmeasured_guest_elsewhere_makes_the_load_unknown() -> None:
    first, second = recorded_snapshots({"v": ("a", [0.5, 0.5])})
    unmeasured = replace(
        second, guests={V: replace(second.guests[V], usage=Usage(None, 1))}
    )
    snapshots = [first, unmeasured]

    at_home = load_of(snapshots, unmeasured)
    elsewhere = load_of(
        snapshots,
        replace(unmeasured, guests={V: replace(unmeasured.guests[V], node=B)}),
    )

    assert at_home is not None
    assert elsewhere is None


@pytest.mark.parametrize("seed", range(60))
def test_load_equals_that_of_plain_python(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - no secret
    snapshot, placed = _random_placement(rng)

    found = load_of([_earlier(snapshot), snapshot], placed)

    expected = expected_load(
        snapshot,
        {guest.id: guest.node for guest in placed.guests.values()},
        {
            guest.id: guest.migrating_to
            for guest in placed.guests.values()
            if guest.migrating_to is not None
        },
    )
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert asdict(found) == pytest.approx(asdict(expected), abs=1e-9)


def _earlier(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, taken_at=snapshot.taken_at.replace(year=2025))


def _random_placement(rng: random.Random) -> tuple[Snapshot, Snapshot]:
    """Return a recorded snapshot, and the same cluster with another placement."""
    names = [f"n{number}" for number in range(rng.randint(1, 5))]
    guests = {
        f"g{number}": (rng.choice(names), [rng.uniform(0, 0.5)])
        for number in range(rng.randint(1, 12))
    }
    (snapshot,) = recorded_snapshots(guests, nodes=names)
    nodes = dict(snapshot.nodes)
    for name, node in nodes.items():
        state = rng.choice([NodeState.ONLINE] * 4 + [NodeState.MAINTENANCE])
        nodes[name] = replace(node, state=state)
    if rng.random() < 0.2:
        off = rng.choice(list(nodes))
        nodes[off] = replace(nodes[off], usage=Usage(), state=NodeState.OFFLINE)
    changed = {}
    for guest in snapshot.guests.values():
        run_state = GuestState.STOPPED if rng.random() < 0.1 else guest.state
        usage = Usage(None, guest.usage.memory) if rng.random() < 0.05 else guest.usage
        changed[guest.id] = replace(guest, state=run_state, usage=usage)
    recorded = replace(snapshot, nodes=nodes, guests=changed)
    placed = {}
    for guest in recorded.guests.values():
        node_id = NodeId(rng.choice(names)) if rng.random() < 0.5 else guest.node
        others = [NodeId(name) for name in names if name != node_id]
        target = rng.choice(others) if others and rng.random() < 0.2 else None
        target = target if guest.is_active else None
        placed[guest.id] = replace(guest, node=node_id, migrating_to=target)
    return recorded, replace(recorded, guests=placed)
