"""The cluster of the demonstration is lifelike, and in need of balancing."""

from __future__ import annotations

import pytest

from opendrs.errors import ModelError
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Exclusion,
    GuestKind,
    Mobility,
    NodeAffinity,
    Pin,
    Snapshot,
)
from opendrs.rules import violations
from opendrs.scoring.imbalance import imbalance
from opendrs.sim import draw_cluster

SEEDS = pytest.mark.parametrize("seed", range(12))


def loads(cluster: Snapshot) -> list[float]:
    found = []
    for node in cluster.nodes.values():
        assert node.capacity is not None
        used = node.usage.known
        assert used is not None
        cpu = used.cpu / node.capacity.cpu
        found.append((cpu + used.memory / node.capacity.memory) / 2)
    return found


@SEEDS
def test_has_the_size_that_was_asked_for(seed: int) -> None:
    cluster = draw_cluster(seed, nodes=8, guests=60)

    assert len(cluster.nodes) == 8
    assert len(cluster.guests) == 60


@SEEDS
def test_is_clearly_out_of_balance(seed: int) -> None:
    assert imbalance(loads(draw_cluster(seed))) > 0.32


@SEEDS
def test_keeps_all_its_rules_also_the_soft_ones(seed: int) -> None:
    assert violations(draw_cluster(seed)) == ()


@SEEDS
def test_fills_no_node_beyond_its_means(seed: int) -> None:
    cluster = draw_cluster(seed)
    for node in cluster.nodes.values():
        there = [g for g in cluster.guests.values() if g.node == node.id]
        promised = sum(guest.limit.memory for guest in there if guest.limit)
        assert node.capacity is not None
        assert promised <= node.capacity.memory
        assert (node.usage.memory or 0) < 0.95 * node.capacity.memory
        assert (node.usage.cpu or 0) < node.capacity.cpu


def test_has_rules_and_guests_of_every_kind() -> None:
    cluster = draw_cluster(1)

    assert {type(rule) for rule in cluster.rules} == {
        Affinity,
        AntiAffinity,
        Exclusion,
        NodeAffinity,
        Pin,
    }
    guests = cluster.guests.values()
    assert {guest.kind for guest in guests} == set(GuestKind)
    assert {guest.mobility for guest in guests} == set(Mobility)
    assert all(g.obstacle for g in guests if g.mobility is not Mobility.LIVE)


def test_the_same_seed_draws_the_same_cluster() -> None:
    assert draw_cluster(7) == draw_cluster(7)
    assert draw_cluster(7) != draw_cluster(8)


@pytest.mark.parametrize(("nodes", "guests"), [(1, 1), (2, 5), (3, 12), (20, 200)])
def test_comes_in_other_sizes(nodes: int, guests: int) -> None:
    cluster = draw_cluster(1, nodes=nodes, guests=guests)

    assert (len(cluster.nodes), len(cluster.guests)) == (nodes, guests)


def test_says_so_when_there_is_no_room() -> None:
    with pytest.raises(ModelError, match="no node with room"):
        draw_cluster(1, nodes=1, guests=60)
