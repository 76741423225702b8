"""Demo cluster is realistic and needs balancing."""

from __future__ import annotations

import pytest

from opendrs.errors import ModelError
from opendrs.metrics import imbalance
from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestKind,
    Mobility,
    NodeAffinity,
    Pin,
    Snapshot,
    TagExclusion,
)
from opendrs.rules import violations
from opendrs.simulation import demo_cluster

SEEDS = pytest.mark.parametrize("seed", range(12))


def loads(cluster: Snapshot) -> list[float]:
    found = []
    for node in cluster.nodes.values():
        assert node.capacity is not None
        used = node.usage.resources
        assert used is not None
        cpu = used.cpu / node.capacity.cpu
        found.append((cpu + used.memory / node.capacity.memory) / 2)
    return found


@SEEDS
def test_demo_cluster_has_requested_size(seed: int) -> None:
    cluster = demo_cluster(seed, nodes=8, guests=60)

    assert len(cluster.nodes) == 8
    assert len(cluster.guests) == 60


@SEEDS
def test_demo_cluster_is_imbalanced(seed: int) -> None:
    assert imbalance(loads(demo_cluster(seed))) > 0.32


@SEEDS
def test_demo_cluster_violates_no_rule(seed: int) -> None:
    assert violations(demo_cluster(seed)) == ()


@SEEDS
def test_demo_cluster_commits_no_node_beyond_capacity(seed: int) -> None:
    cluster = demo_cluster(seed)
    for node in cluster.nodes.values():
        there = [g for g in cluster.guests.values() if g.node == node.id]
        committed = sum(guest.limit.memory for guest in there if guest.limit)
        assert node.capacity is not None
        assert committed <= node.capacity.memory
        assert (node.usage.memory or 0) < 0.95 * node.capacity.memory
        assert (node.usage.cpu or 0) < node.capacity.cpu


def test_demo_cluster_has_every_kind_of_rule_and_guest() -> None:
    cluster = demo_cluster(1)

    assert {type(rule) for rule in cluster.rules} == {
        Affinity,
        AntiAffinity,
        TagExclusion,
        NodeAffinity,
        Pin,
    }
    guests = cluster.guests.values()
    assert {guest.kind for guest in guests} == set(GuestKind)
    assert {guest.effective_mobility for guest in guests} == set(Mobility)
    assert all(
        g.mobility_detail for g in guests if g.effective_mobility is not Mobility.LIVE
    )


def test_same_seed_gives_same_cluster() -> None:
    assert demo_cluster(7) == demo_cluster(7)
    assert demo_cluster(7) != demo_cluster(8)


@pytest.mark.parametrize(("nodes", "guests"), [(1, 1), (2, 5), (3, 12), (20, 200)])
def test_demo_cluster_of_other_sizes(nodes: int, guests: int) -> None:
    cluster = demo_cluster(1, nodes=nodes, guests=guests)

    assert (len(cluster.nodes), len(cluster.guests)) == (nodes, guests)


def test_too_many_guests_raise_error() -> None:
    with pytest.raises(ModelError, match="fits on no node"):
        demo_cluster(1, nodes=1, guests=60)
