"""A cluster after a scenario: where its guests run, and which of them do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from opendrs.arrays import MobilityFilter, SkippedGuest, skip_reasons
from opendrs.metrics import LoadModel
from opendrs.model import (
    GuestId,
    Limits,
    Node,
    NodeId,
    NodeState,
    Snapshot,
)
from opendrs.placement.arrays import NO_NODE, DisplacedGroup, PlacementArrays
from opendrs.placement.changes import (
    Scenario,
    with_added_nodes,
    with_closed_nodes,
    with_growth,
    without_arrivals,
)
from opendrs.placement.reasons import UnplacedReason, describe_reasons
from opendrs.placement.search import SearchBudget, place_groups
from opendrs.placement.state import PlacementState
from opendrs.rules import (
    Violation,
    chooses_domain,
    new_violations,
    other_domains,
    restart_blocker,
    usable_memory,
    with_domain_rules,
)

ANY_MOBILITY = MobilityFilter(
    load_model=LoadModel.DYNAMIC, allow_cold_migration=True, include_unlimited=True
)


@dataclass(frozen=True, slots=True)
class PlacedGuest:
    """Guest that a scenario takes to another node.

    Attributes:
        guest: Its name.
        source: Node that failed or is removed.
        target: Node that it starts on or migrates to.
    """

    guest: GuestId
    source: NodeId
    target: NodeId


@dataclass(frozen=True, slots=True)
class UnplacedGuest:
    """Guest of a failed or removed node without another node.

    Attributes:
        guest: Its name.
        node: Node that failed or is removed.
        reason: Code of the reason.
        detail: The reason as a sentence.
    """

    guest: GuestId
    node: NodeId
    reason: UnplacedReason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """Cluster after a scenario.

    Attributes:
        before: The cluster before it.
        after: The cluster after it. Failed and removed nodes are offline; guests
            without another node are stopped.
        placed: Guests on another node, in order of name.
        unplaced: Guests without another node, in order of name.
        is_proven: Whether the guests provably have no node, if some are unplaced.
            Otherwise none was found within the limit of the search.
        short_of_memory: Online nodes that use more memory than the headroom allows, and
            did not before.
        new_violations: Strict rules that are violated and were not before.
    """

    before: Snapshot
    after: Snapshot
    placed: tuple[PlacedGuest, ...]
    unplaced: tuple[UnplacedGuest, ...]
    is_proven: bool
    short_of_memory: tuple[NodeId, ...]
    new_violations: tuple[Violation, ...]

    @property
    def fits(self) -> bool:
        """Return whether all guests run, with the rules and within the memory."""
        return not (self.unplaced or self.short_of_memory or self.new_violations)


def apply_scenario(
    snapshot: Snapshot, scenario: Scenario, limits: Limits
) -> ScenarioResult:
    """Return *snapshot* after *scenario*.

    Nodes are added first, then the load grows. The guests of failed nodes then restart,
    and those of removed nodes migrate, by the rules and the limits of memory. Guests
    that belong in one domain may go to any if all of them are displaced. A guest whose
    memory is not measured has no feasible node. Pins, locks and mobility keep a guest
    on a removed node; a failed node leaves them no choice, and only guests that are
    bound to it stay down.

    Raises:
        UnknownNodeError: A node of the scenario is not in the snapshot.
    """
    scenario.require_nodes(snapshot)
    closed = tuple(dict.fromkeys((*scenario.fail, *scenario.remove)))
    grown = with_growth(with_added_nodes(snapshot, scenario.add), scenario.growth)
    grown = without_arrivals(grown, closed)
    grown = replace(grown, rules=with_domain_rules(grown.rules, grown, closed))
    first = _after(grown, snapshot, scenario, limits)
    if not first.unplaced or not chooses_domain(grown, closed):
        return first
    others = other_domains(grown, closed)
    is_proven = first.is_proven and others is not None
    for each in others or ():
        result = _after(each, snapshot, scenario, limits)
        if not result.unplaced:
            return result
        is_proven = is_proven and result.is_proven
    return replace(first, is_proven=is_proven)


def _after(
    grown: Snapshot, before: Snapshot, scenario: Scenario, limits: Limits
) -> ScenarioResult:
    """Return *grown* after nodes of *scenario* fail and others are removed."""
    closed = tuple(dict.fromkeys((*scenario.fail, *scenario.remove)))
    arrays = PlacementArrays(grown, limits)
    bound = dict(_bound_guests(arrays, scenario, limits))
    parts = [part for name in closed for part in arrays.parts_on[arrays.index[name]]]
    groups, unplaced = _split_bound(arrays, parts, bound)
    state = PlacementState(arrays)
    state.displace(tuple(parts), *(arrays.index[name] for name in closed))
    result = place_groups(state, groups, SearchBudget(), state.preference)
    placed: list[PlacedGuest] = []
    for group, node in zip(groups, result.nodes, strict=True):
        guests = arrays.parts[group.part]
        if node == NO_NODE:
            detail = describe_reasons(state, group)
            reason = UnplacedReason.NO_FEASIBLE_NODE
            unplaced += [UnplacedGuest(g.id, g.node, reason, detail) for g in guests]
        else:
            target = arrays.node_ids[node]
            placed += [PlacedGuest(g.id, g.node, target) for g in guests]
    targets = {each.guest: each.target for each in placed}
    after = with_closed_nodes(grown, closed, targets)
    return ScenarioResult(
        before=before,
        after=after,
        placed=tuple(sorted(placed, key=lambda each: each.guest)),
        unplaced=tuple(sorted(unplaced, key=lambda each: each.guest)),
        is_proven=result.is_proven,
        short_of_memory=tuple(_newly_short(before, after, limits)),
        new_violations=new_violations(grown, after),
    )


def _bound_guests(
    arrays: PlacementArrays, scenario: Scenario, limits: Limits
) -> Iterator[tuple[GuestId, tuple[UnplacedReason, str]]]:
    """Yield the guests of closed nodes that must or can only be there, and why."""
    snapshot = arrays.snapshot
    skipped = immovable_guests(arrays, scenario.remove, limits)
    for guest in snapshot.guests.values():
        if not guest.is_active:
            continue
        if guest.node in scenario.fail:
            detail = restart_blocker(guest, snapshot.nodes[guest.node])
            if detail is not None:
                yield guest.id, (UnplacedReason.BOUND_TO_NODE, detail)
        elif guest.id in skipped:
            detail = skipped[guest.id].detail
            yield guest.id, (UnplacedReason.MIGRATION_NOT_ALLOWED, detail)


def immovable_guests(
    arrays: PlacementArrays, nodes: Sequence[NodeId], limits: Limits
) -> Mapping[GuestId, SkippedGuest]:
    """Return the guests of *nodes* that must not migrate, and why.

    The cooldown and the minimum uptime are ignored: they end by themselves. A node in
    maintenance does not prevent its guests from leaving.
    """
    snapshot = arrays.snapshot
    closed = frozenset(nodes)
    opened = {
        name: replace(node, state=NodeState.ONLINE)
        for name, node in snapshot.nodes.items()
        if name in closed and node.reachable and not node.online
    }
    guests = {
        name: guest for name, guest in snapshot.guests.items() if guest.node in closed
    }
    part = replace(snapshot, nodes={**snapshot.nodes, **opened}, guests=guests)
    lasting = replace(limits, cooldown=0.0, min_uptime=0.0)
    return skip_reasons(part, arrays.rules, lasting, ANY_MOBILITY)


def _split_bound(
    arrays: PlacementArrays,
    parts: Sequence[int],
    bound: Mapping[GuestId, tuple[UnplacedReason, str]],
) -> tuple[list[DisplacedGroup], list[UnplacedGuest]]:
    """Return the displaced groups without bound guests, and the guests of the others.

    Guests with a strict affinity to a bound guest have no other node either.
    """
    groups: list[DisplacedGroup] = []
    unplaced: list[UnplacedGuest] = []
    for part in parts:
        guests = arrays.parts[part]
        blocking = [guest.id for guest in guests if guest.id in bound]
        if not blocking:
            groups.append(arrays.displaced_group(part))
            continue
        for guest in guests:
            reason, detail = bound[blocking[0]]
            if guest.id in bound:
                reason, detail = bound[guest.id]
            else:
                detail = f"affinity to {blocking[0]}: {detail}"
            unplaced.append(UnplacedGuest(guest.id, guest.node, reason, detail))
    return groups, unplaced


def _newly_short(before: Snapshot, after: Snapshot, limits: Limits) -> Iterator[NodeId]:
    short = {node.id for node in before.nodes.values() if _is_short(node, limits)}
    for name, node in sorted(after.nodes.items()):
        if node.online and name not in short and _is_short(node, limits):
            yield name


def _is_short(node: Node, limits: Limits) -> bool:
    usable, used = usable_memory(node, limits).measured, node.usage.memory
    return usable is not None and used is not None and used > usable
