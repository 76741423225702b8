"""Plans of all policies where nodes lack storages of guests."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from opendrs.model import Disk, Snapshot, Storage
from opendrs.ports import Outcome
from properties.test_plan_interleavings import (
    LIMITS,
    SENSITIVE_POLICIES,
    plan_of,
    random_cluster,
)
from properties.test_small_clusters import tiny_cluster
from support.builders import cluster
from support.oracles.interleavings import migration_of, unsafe_states
from support.oracles.storages import misses_storage, with_local_disks
from support.simulated_cluster import SimulatedCluster, outcomes

NAMES = ("ceph", "nfs")
COPYING = replace(LIMITS, migrate_local_disks=True)


def partly_shared_cluster(seed: int) -> Snapshot:
    """Return a drawn cluster in which one node in three lacks a shared storage."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    snapshot = random_cluster(seed)
    present = {
        name: [each for each in NAMES if random.random() < 2 / 3]
        for name in snapshot.nodes
    }
    nodes = {
        name: replace(
            node,
            storages=tuple(Storage(id=each, shared=True) for each in present[name]),
        )
        for name, node in snapshot.nodes.items()
    }
    guests = {
        name: replace(
            guest,
            disks=tuple(Disk(storage=each) for each in present[guest.node][:1]),
        )
        for name, guest in snapshot.guests.items()
    }
    return replace(snapshot, nodes=nodes, guests=guests)


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_no_guest_goes_to_a_node_without_its_storage(name: str) -> None:
    steps = 0
    for seed in range(8):
        snapshot = partly_shared_cluster(seed)
        plan = plan_of(name, snapshot)
        steps += len(plan.steps)
        assert not any(misses_storage(snapshot, step) for step in plan.steps), seed
        assert unsafe_states(snapshot, plan, LIMITS) == [], seed
        report = SimulatedCluster(snapshot, LIMITS).execute(*plan.steps)
        assert set(outcomes(report)) <= {Outcome.DONE}, seed
    assert steps or name == "pressure"


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_copies_of_local_disks_fit_in_every_order(name: str, *, mapped: bool) -> None:
    policy = replace(SENSITIVE_POLICIES[name], limits=COPYING)  # type: ignore[type-var]
    copies = 0
    for seed in range(8):
        snapshot = with_local_disks(random_cluster(seed), seed, mapped=mapped)
        plan = policy.decide(snapshot, policy.initial_memory()).plan
        guests = [migration_of(step).guest for step in plan.steps]
        disks = [disk for each in guests for disk in snapshot.guests[each].disks or ()]
        copies += sum(disk.storage == "zfs" for disk in disks)
        assert unsafe_states(snapshot, plan, COPYING) == [], seed
        report = SimulatedCluster(snapshot, COPYING).execute(*plan.steps)
        assert set(outcomes(report)) <= {Outcome.DONE}, seed
    assert copies or name in {"pressure", "consolidate", "consolidate by loads"}


@pytest.mark.parametrize("name", ["optimize", "repair"])
def test_copies_fit_where_all_placements_are_compared(name: str) -> None:
    policy = replace(SENSITIVE_POLICIES[name], limits=COPYING)  # type: ignore[type-var]
    copies = 0
    for seed in range(12):
        snapshot = with_local_disks(tiny_cluster(seed), seed)
        plan = policy.decide(snapshot, policy.initial_memory()).plan
        guests = [migration_of(step).guest for step in plan.steps]
        disks = [disk for each in guests for disk in snapshot.guests[each].disks or ()]
        copies += sum(disk.storage == "zfs" for disk in disks)
        assert unsafe_states(snapshot, plan, COPYING) == [], seed
    assert copies


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_local_disks_are_not_copied_unless_it_is_allowed(name: str) -> None:
    for seed in range(4):
        snapshot = with_local_disks(random_cluster(seed), seed)
        plan = plan_of(name, snapshot)
        moved = {migration_of(step).guest for step in plan.steps}
        local = {
            name
            for name, guest in snapshot.guests.items()
            if any(disk.storage == "zfs" for disk in guest.disks or ())
        }
        assert local
        assert not moved & local, seed
        assert unsafe_states(snapshot, plan, LIMITS) == [], seed


def test_balance_passes_over_the_least_loaded_node_without_the_storage() -> None:
    ceph = (Storage(id="ceph", shared=True),)
    plain = cluster({"a": 0.8, "b": 0.0, "c": 0.2}, {"vm": ("a", 0.4), "x": ("a", 0.4)})
    guests = {
        name: replace(guest, disks=(Disk(storage="ceph"),))
        for name, guest in plain.guests.items()
    }
    storages = {"a": ceph, "b": (), "c": ceph}
    nodes = {
        name: replace(node, storages=storages[name])
        for name, node in plain.nodes.items()
    }

    targets = {
        migration_of(step).target
        for step in plan_of("balance", replace(plain, nodes=nodes, guests=guests)).steps
    }

    assert targets == {"c"}
    assert "b" in {
        migration_of(step).target for step in plan_of("balance", plain).steps
    }
