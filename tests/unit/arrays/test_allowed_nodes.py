"""Allowed nodes compared with a check of every node."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.arrays import (
    AllowedNodes,
    ClusterArrays,
    MobilityFilter,
    compile_move_groups,
)
from opendrs.metrics import LoadModel
from opendrs.model import DEFAULT_LIMITS, Snapshot
from opendrs.rules import FeasibilityChecker, compile_rules
from support.imbalanced_clusters import imbalanced_clusters
from support.strategies import snapshots

LIVE = MobilityFilter(load_model=LoadModel.DYNAMIC, allow_cold_migration=False)
SNAPSHOTS = (
    snapshots()
    | snapshots(settled=True)
    | snapshots(settled=True, storages=True)
    | imbalanced_clusters()
)


def compiled(snapshot: Snapshot, load_model: LoadModel | None) -> ClusterArrays:
    """Return all movable groups on the nodes of the arrays."""
    rules = compile_rules(snapshot)
    movable = compile_move_groups(snapshot, rules, DEFAULT_LIMITS, LIVE).movable
    nodes = ClusterArrays(snapshot, rules, DEFAULT_LIMITS, load_model=load_model)
    groups = (group for group in movable.values() if group[0].node in nodes.index)
    return replace(nodes, groups=tuple(groups))


def expected_targets(
    cluster: ClusterArrays, snapshot: Snapshot, group: int
) -> dict[str, bool]:
    """Check every node except that of *group* one by one."""
    feasibility = FeasibilityChecker(snapshot, cluster.rules, cluster.limits)
    members = cluster.groups[group]
    current = tuple(snapshot.guests[guest.id] for guest in members)
    return {
        name: cluster.feasibility.is_compatible(members, snapshot.nodes[name])
        and feasibility.affinity_conflict(current, name) is None
        for name in cluster.node_ids
        if name != current[0].node
    }


@given(SNAPSHOTS, st.sampled_from([None, LoadModel.DYNAMIC]), st.data())
def test_allowed_nodes_agree_with_check_of_each_node(
    snapshot: Snapshot, load_model: LoadModel | None, data: st.DataObject
) -> None:
    cluster = compiled(snapshot, load_model)
    allowed_nodes, now = AllowedNodes(cluster), snapshot
    if not cluster.groups:
        return

    for _ in range(3):
        for group, members in enumerate(cluster.groups):
            mask = allowed_nodes.allowed_targets(group).tolist()
            allowed = dict(zip(cluster.node_ids, mask, strict=True))
            del allowed[now.guests[members[0].id].node]
            event(f"some are closed: {not all(allowed.values())}")
            assert allowed == expected_targets(cluster, now, group)
        group = data.draw(st.integers(0, len(cluster.groups) - 1))
        target = data.draw(st.integers(0, len(cluster.node_ids) - 1))
        allowed_nodes.record_move(group, target)
        moved = {
            each.id: replace(each, node=cluster.node_ids[target])
            for each in cluster.groups[group]
        }
        now = replace(now, guests={**now.guests, **moved})


@given(SNAPSHOTS, st.data())
def test_update_after_a_move_gives_all_allowed_nodes(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    cluster = compiled(snapshot, None)
    if not cluster.groups:
        return
    allowed_nodes = AllowedNodes(cluster)
    count = len(cluster.groups)
    rows = [allowed_nodes.allowed_targets(group).copy() for group in range(count)]
    moved = data.draw(st.integers(0, count - 1))
    source = int(cluster.node_of[moved])
    target = data.draw(st.integers(0, len(cluster.node_ids) - 1))

    allowed_nodes.record_move(moved, target)

    for group in allowed_nodes.related_groups(moved):
        allowed_nodes.update_targets(group, rows[group], (source, target))
    for group in set(range(count)) - {moved}:
        expected = allowed_nodes.allowed_targets(group)
        home = int(cluster.node_of[group])
        differs = [n for n in range(len(expected)) if rows[group][n] != expected[n]]
        assert set(differs) <= {home}


@given(SNAPSHOTS)
def test_classes_give_each_group_its_allowed_nodes(snapshot: Snapshot) -> None:
    cluster = compiled(snapshot, None)
    allowed_nodes = AllowedNodes(cluster)

    allowed, class_of = allowed_nodes.by_class()

    assert not allowed[0].any()
    for group in range(len(cluster.groups)):
        expected = allowed_nodes.allowed_targets(group)
        assert (allowed[class_of[group]] == expected).all()
