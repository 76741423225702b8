"""Migrations that may be running are kept until they are seen to have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import guest
from opendrs.controller.cycle import remembered, settle_in_flight
from opendrs.controller.in_flight import (
    InFlight,
    OpenMigration,
    in_flight,
    is_over,
)
from opendrs.controller.stores import MemoryStore
from opendrs.errors import StoreError
from opendrs.model import (
    GIB,
    GuestId,
    GuestKind,
    GuestState,
    Node,
    NodeId,
    NodeState,
    Relocation,
    Snapshot,
    Usage,
)
from opendrs.policies import (
    Balance,
)
from stage import HASTY, Stage, migration
from unit.controller.silent_hosts import (
    ONE,
    VM1,
    A,
    B,
    C,
    crowd,
    lost,
)


def settled(stage: Stage) -> int:
    """Let a cycle look; return how many lost migrations may still be running."""
    settle_in_flight(stage.world.observe(), stage.store, stage.world)
    return len(in_flight(stage.store))


@pytest.mark.parametrize("host", [A, B])
def test_a_lost_migration_is_over_once_both_nodes_answer_and_none_is_seen(
    host: NodeId,
) -> None:
    stage = lost(host)
    assert settled(stage) == 1
    stage.world.rejoin(A, B)
    assert settled(stage) == 1  # it runs, and is seen to

    stage.clock.sleep(600)

    assert settled(stage) == 0
    assert stage.world.observe().guests[VM1].node == B
    stage.world.isolate(A, B)
    seen = remembered(stage.world.observe(), Balance(limits=HASTY), stage.store)
    assert VM1 not in seen.guests


def test_a_lost_migration_is_over_once_its_guest_runs_on_the_target() -> None:
    stage = lost(A)
    stage.clock.sleep(600)

    assert settled(stage) == 0


def test_a_guest_seen_on_its_source_may_still_be_migrating_to_a_silent_node() -> None:
    stage = lost(B)
    shown = stage.world.observe().guests[VM1]

    assert (shown.node, shown.migrating_to) == (A, None)
    assert settled(stage) == 1


def test_the_platform_is_not_asked_about_what_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = lost(A)
    stage.world.rejoin(A)
    asked: list[object] = []
    monkeypatch.setattr(stage.world, "status", asked.append)

    assert settled(stage) == 1
    assert asked == []


def test_the_memory_that_was_seen_last_is_kept() -> None:
    stage = lost(A)
    stage.world.rejoin(A)
    seen = stage.world.observe()
    grown = replace(seen.guests[VM1], usage=Usage(5.0, 50 * GIB))

    later = replace(seen, guests={**seen.guests, VM1: grown})
    settle_in_flight(later, stage.store, stage.world)

    (found,) = in_flight(stage.store)
    assert found.guest.usage == grown.usage


def test_a_lost_migration_is_over_once_the_source_says_so() -> None:
    stage = lost(B)

    stage.world.kill(B)

    assert settled(stage) == 0


def test_a_guest_that_is_not_seen_is_gone_when_both_nodes_answer() -> None:
    move = OpenMigration(migration("gone", "a", "b"), guest("gone", "a", 0.1))
    seen = crowd()
    rest = {name: one for name, one in seen.nodes.items() if name != A}

    assert is_over(move, seen)
    assert is_over(move, replace(seen, nodes={**seen.nodes, C: Node(id=C)}))
    assert is_over(move, replace(without(seen, VM1), nodes=rest))
    assert not is_over(move, replace(seen, nodes={**seen.nodes, A: Node(id=A)}))


def test_a_migration_is_not_over_while_its_guest_stands_still_at_the_target() -> None:
    move = OpenMigration(migration("vm1", "a", "b"), guest("vm1", "a", 0.1))
    arriving = guest("vm1", "b", None, state=GuestState.UNKNOWN)
    seen = crowd()
    hidden = Node(id=A)

    half = replace(seen, guests={VM1: arriving}, nodes={**seen.nodes, A: hidden})

    assert not is_over(move, half)
    assert is_over(move, replace(half, nodes=seen.nodes))


def lost_and_kept(origin: Snapshot) -> InFlight:
    """Return what is kept of a lost migration of vm1 from a to b."""
    store = MemoryStore()
    kept = InFlight(store)
    kept.begin([ONE.action], origin)  # type: ignore[list-item]
    return kept


def test_what_is_not_seen_counts_as_it_was_seen_last() -> None:
    kept = lost_and_kept(crowd())
    grown = replace(crowd().guests[VM1], usage=Usage(5.0, 50 * GIB))
    kept.counted(replace(crowd(), guests={**crowd().guests, VM1: grown}))

    found = kept.counted(without(crowd(), VM1))

    assert found.guests[VM1].usage == Usage(5.0, 50 * GIB)


def without(seen: Snapshot, *guests: GuestId) -> Snapshot:
    rest = {name: one for name, one in seen.guests.items() if name not in guests}
    return replace(seen, guests=rest)


def test_a_guest_that_its_source_does_not_show_counts_there_as_well() -> None:
    origin = crowd()
    emptied = replace(origin.nodes[A], usage=Usage(0.0, 0))
    gone = replace(without(origin, VM1), nodes={**origin.nodes, A: emptied})

    found = lost_and_kept(origin).counted(gone)

    assert found.nodes[A].usage == crowd().guests[VM1].usage
    assert found.guests[VM1].locations == (A, B)


def test_a_guest_of_the_same_name_elsewhere_counts_as_well() -> None:
    origin = crowd()
    namesake = guest("vm1", "d", 0.2)
    seen = replace(origin, guests={**origin.guests, VM1: namesake})
    silent_node = {**seen.nodes, A: Node(id=A)}

    found = lost_and_kept(origin).counted(replace(seen, nodes=silent_node))

    assert found.guests[VM1] == namesake
    assert found.guests[GuestId("vm1@a")].locations == (A, B)


def test_a_node_that_the_platform_no_longer_has_is_unknown() -> None:
    origin = crowd()
    rest = {name: one for name, one in origin.nodes.items() if name != A}

    found = lost_and_kept(origin).counted(replace(without(origin, VM1), nodes=rest))

    assert found.nodes[A].state is NodeState.UNKNOWN
    assert found.guests[VM1].migrating_to == B


@pytest.mark.parametrize(
    "saved",
    [
        {"migrations": [{}]},
        {"migrations": [{"action": {"kind": "power-on", "node": "a"}}]},
        {"migrations": 3},
    ],
)
def test_a_damaged_record_is_reported(saved: dict[str, object]) -> None:
    store = MemoryStore()
    store.save("in flight", saved)

    with pytest.raises(StoreError):
        InFlight(store)


def test_what_is_kept_is_read_again() -> None:
    store = MemoryStore()
    tagged = guest("vm1", "a", 0.4, tags=frozenset({"db"}), kind=GuestKind.CONTAINER)
    move = Relocation(VM1, A, B)
    InFlight(store).begin([move], replace(crowd(), guests={VM1: tagged}))

    (found,) = in_flight(store)

    assert found.move == move
    assert found.guest.tags == tagged.tags
    assert found.guest.kind is GuestKind.CONTAINER
    assert found.guest.limit == tagged.limit
    assert found.guest.usage == tagged.usage
