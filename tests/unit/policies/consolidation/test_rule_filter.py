"""Rule filter compared with a check of every node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.model import Guest, NodeId, Snapshot
from opendrs.policies.consolidation import SPECPOWER, Consolidate
from opendrs.policies.consolidation.input import ConsolidationInput
from opendrs.policies.consolidation.memory import append_sample, empty_memory
from opendrs.policies.consolidation.rule_filter import RuleFilter
from opendrs.rules import FeasibilityChecker
from support.imbalanced_clusters import imbalanced_clusters
from support.strategies import snapshots

POLICY = Consolidate()


def inputs_of(snapshot: Snapshot) -> ConsolidationInput:
    curve = SPECPOWER[POLICY.power_model]
    memory = append_sample(empty_memory(), snapshot, 1)
    return ConsolidationInput(
        snapshot, memory, POLICY.limits, curve, manage_power=False
    )


def expected_targets(
    inputs: ConsolidationInput, snapshot: Snapshot, group: tuple[Guest, ...]
) -> Iterator[bool]:
    """Check every node except that of *group* one by one."""
    feasibility = FeasibilityChecker(snapshot, inputs.rules, inputs.limits)
    current = tuple(snapshot.guests[guest.id] for guest in group)
    for name in inputs.node_ids:
        if name != current[0].node:
            suits = inputs.feasibility.is_compatible(group, inputs.snapshot.nodes[name])
            yield suits and feasibility.affinity_conflict(current, name) is None


def allowed_targets(
    inputs: ConsolidationInput, target_filter: RuleFilter, guest: int, source: NodeId
) -> Iterator[bool]:
    allowed = target_filter.allowed_targets(guest)
    for row, name in enumerate(inputs.node_ids):
        if name != source:
            yield bool(allowed[row])


@given(snapshots(settled=True) | imbalanced_clusters(), st.data())
def test_rule_filter_agrees_with_check_of_each_node(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    inputs = inputs_of(snapshot)
    target_filter, now = RuleFilter(inputs), inputs.snapshot
    if not inputs.groups:
        return

    for _ in range(3):
        for guest, group in enumerate(inputs.groups):
            source = now.guests[group[0].id].node
            allowed = list(allowed_targets(inputs, target_filter, guest, source))
            event(f"some are closed: {not all(allowed)}")
            assert allowed == list(expected_targets(inputs, now, group))
        guest = data.draw(st.integers(0, len(inputs.groups) - 1))
        target = data.draw(st.integers(0, len(inputs.node_ids) - 1))
        target_filter.record_move(guest, target)
        moved = {
            each.id: replace(each, node=inputs.node_ids[target])
            for each in inputs.groups[guest]
        }
        now = replace(now, guests={**now.guests, **moved})
