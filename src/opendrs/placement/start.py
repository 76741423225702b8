"""Ranked nodes for guests that are to start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from opendrs.errors import ModelError, UnknownGuestError
from opendrs.metrics import NodeLoad
from opendrs.model import (
    Affinity,
    AntiAffinity,
    DomainAffinity,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Limits,
    LiveMigration,
    MutualAntiAffinity,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.placement.arrays import NO_NODE, DisplacedGroup, PlacementArrays
from opendrs.placement.reasons import (
    InfeasibleReason,
    describe_infeasible,
    infeasible_reasons,
)
from opendrs.placement.reserves import FailureReserves
from opendrs.placement.state import PlacementState
from opendrs.rules import (
    FailureSet,
    available_loads,
    compared_loads,
    describe_not_tolerated,
    with_chosen,
)

NOT_STARTED = NodeId("(not started)")  # node of the guests that are to start
MAX_COUNT = 1000  # guests of one request


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """Guests that are to start.

    Attributes:
        limit: Cores and memory of each guest, all of which it is assumed to use.
        count: Number of guests.
        tags: Tags of each guest. Rules that the platform derives from one of these tags
            apply to it.
        like: Guest with the same hardware requirements, further loads and rules; None
            if none.

    Raises:
        ModelError: An amount or the count is out of range.
    """

    limit: Resources
    count: int = 1
    tags: frozenset[str] = frozenset()
    like: GuestId | None = None

    def __post_init__(self) -> None:
        if self.limit.cpu <= 0 or self.limit.memory <= 0:
            raise ModelError(
                "limit: expected more than 0 cores and 0 bytes, got "
                f"{self.limit.cpu:g} and {self.limit.memory}"
            )
        if not 1 <= self.count <= MAX_COUNT:
            raise ModelError(f"count: expected 1 to {MAX_COUNT}, got {self.count}")


@dataclass(frozen=True, slots=True)
class RankedNode:
    """Node on which the first guest can start.

    Attributes:
        node: Its name.
        score: TOPSIS closeness in [0, 1] after the start; larger is better.
        before: Load before the start.
        after: Load after the start.
        soft_violations: Number of soft rules that the start violates.
        priority: Priority in node-affinity rules, by their weights; higher is better.
    """

    node: NodeId
    score: float
    before: NodeLoad
    after: NodeLoad
    soft_violations: int
    priority: float


@dataclass(frozen=True, slots=True)
class InfeasibleNode:
    """Node on which the first guest cannot start.

    Attributes:
        node: Its name.
        reason: Code of the reason.
        detail: The reason as a sentence, with the numbers.
    """

    node: NodeId
    reason: InfeasibleReason
    detail: str


@dataclass(frozen=True, slots=True)
class StartPlacement:
    """Nodes for guests that are to start.

    Attributes:
        ranked: Feasible nodes of the first guest, the best first.
        infeasible: Other nodes, in order of name.
        nodes: Node of each guest, each with those before it in place; None if no node
            is feasible.
        infeasible_after: The infeasible nodes of the first guest without a node.
    """

    ranked: tuple[RankedNode, ...]
    infeasible: tuple[InfeasibleNode, ...]
    nodes: tuple[NodeId | None, ...]
    infeasible_after: tuple[InfeasibleNode, ...] = ()


def start_placement(
    snapshot: Snapshot, request: StartRequest, limits: Limits
) -> StartPlacement:
    """Return ranked nodes for the guests of *request*.

    First are the nodes with the highest priority in node affinities, then those that
    violate the fewest soft rules, then those with the best score. A guest starts on the
    first node, and the next guest is placed with the load after that. Guests like one
    with a strict affinity start on one node, all of them or none. A node is infeasible
    if a further load is or would be above its threshold, or if a failure that *limits*
    wants tolerated would be tolerated less after the start.

    Raises:
        UnknownGuestError: The guest to resemble is not in the snapshot.
    """
    names = _new_names(snapshot, request.count)
    started = _with_new_guests(snapshot, request, names)
    arrays = PlacementArrays(started, limits)
    state, start_limits = PlacementState(arrays), _StartLimits(started, limits)
    parts = [arrays.part_of[name] for name in names]
    state.displace(tuple(parts), arrays.index[NOT_STARTED])
    groups = [arrays.displaced_group(x, gathers=True) for x in dict.fromkeys(parts)]
    start_limits.check_all(state, groups[0])
    ranked = tuple(_ranked_nodes(state, groups[0], start_limits.prevented))
    infeasible = tuple(_infeasible_nodes(state, groups[0], start_limits.prevented))
    after: tuple[InfeasibleNode, ...] = ()
    for group in groups:
        if start_limits.start_on_best(state, group) is None:
            after = tuple(_infeasible_nodes(state, group, start_limits.prevented))
            break
    placed = state.node_of[parts].tolist()
    nodes = tuple(None if i == NO_NODE else arrays.node_ids[i] for i in placed)
    return StartPlacement(ranked, infeasible, nodes, after)


class _StartLimits:
    """Thresholds of further loads, and failures that must not be tolerated less.

    Attributes:
        prevented: Nodes on which the guests must not start, with the reason and a
            sentence. All guests are alike, so what prevents one prevents those after
            it.

    Args:
        snapshot: The cluster with the guests, all of them on `NOT_STARTED`.
        limits: Limits of the operator.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.prevented: dict[int, tuple[InfeasibleReason, str]] = {}
        self._available = available_loads(snapshot, compared_loads(snapshot, limits))
        self._started: defaultdict[int, list[Guest]] = defaultdict(list)
        self._reserves: FailureReserves | None = None
        if limits.tolerates_failures:
            self._reserves = FailureReserves(snapshot, limits)

    def check_all(self, state: PlacementState, group: DisplacedGroup) -> None:
        """Find the nodes on which *group* must not start."""
        for node in _best_first(state, group):
            if self._note_load(state, group, node) or self._reserves is None:
                continue
            failures = self._reserves.sets_against(_starts(state, group, node))
            self._note_failures(node, failures)

    def start_on_best(self, state: PlacementState, group: DisplacedGroup) -> int | None:
        """Start *group* on the best node, and return it; None if none is left."""
        for node in _best_first(state, group):
            if node in self.prevented or self._note_load(state, group, node):
                continue
            if self._reserves is not None:
                failures = self._reserves.try_actions(_starts(state, group, node))
                if self._note_failures(node, failures):
                    continue
            state.place(group, node)
            self._started[node].extend(state.arrays.parts[group.part])
            return node
        return None

    def _note_failures(self, node: int, failures: tuple[FailureSet, ...]) -> bool:
        """Note whether *failures*, which are not tolerated, prevent the start."""
        if failures:
            detail = describe_not_tolerated(failures)
            self.prevented[node] = InfeasibleReason.FAILURE_NOT_TOLERATED, detail
        return bool(failures)

    def _note_load(
        self, state: PlacementState, group: DisplacedGroup, node: int
    ) -> bool:
        """Note whether a further load of *node* prevents the start of *group*.

        Unknown loads of the guests count 0 here: that of a new guest cannot be known,
        and a node at its threshold receives none.
        """
        guests = [*self._started[node], *state.arrays.parts[group.part]]
        for load, left in self._available.get(state.arrays.node_ids[node], {}).items():
            if left is None:
                detail = f"{load} load of the node is unknown"
                self.prevented[node] = InfeasibleReason.METRICS_MISSING, detail
                return True
            excess = sum(each.loads.get(load, 0.0) for each in guests) - left
            if excess > 0:
                detail = f"{load} load above the threshold by {excess:.3g}"
                self.prevented[node] = InfeasibleReason.LOAD_EXCEEDED, detail
                return True
        return False


def _starts(
    state: PlacementState, group: DisplacedGroup, node: int
) -> list[LiveMigration]:
    """Return the starts of the guests of *group* on *node*."""
    target = state.arrays.node_ids[node]
    guests = state.arrays.parts[group.part]
    return [LiveMigration(each.id, NOT_STARTED, target) for each in guests]


def _best_first(state: PlacementState, group: DisplacedGroup) -> Sequence[int]:
    """Return the nodes on which *group* keeps the rules and fits, the best first."""
    mask, ranking = state.feasible(group), state.preference(group)
    best: list[int] = ranking[mask[ranking]].tolist()
    return best


def _new_names(snapshot: Snapshot, count: int) -> list[GuestId]:
    """Return names of new guests that are not in *snapshot*."""
    prefix = "new"
    while any(name.startswith(f"{prefix}-") for name in snapshot.guests):
        prefix += "-"
    width = len(str(count))
    return [GuestId(f"{prefix}-{number:0{width}}") for number in range(1, count + 1)]


def _with_new_guests(
    snapshot: Snapshot, request: StartRequest, names: list[GuestId]
) -> Snapshot:
    """Return *snapshot* with the guests of *request* on a node that is offline."""
    model = Guest(
        id=names[0], node=NOT_STARTED, kind=GuestKind.VM, state=GuestState.RUNNING
    )
    architecture = None
    if request.like is not None:
        like = snapshot.guests.get(request.like)
        if like is None:
            raise UnknownGuestError(f"guest {request.like} is not in the cluster")
        model = replace(
            model, kind=like.kind, cpu_model=like.cpu_model, loads=like.loads
        )
        architecture = snapshot.nodes[like.node].architecture
    model = replace(
        model, limit=request.limit, usage=Usage.of(request.limit), tags=request.tags
    )
    source = Node(id=NOT_STARTED, state=NodeState.OFFLINE, architecture=architecture)
    with_guests = replace(
        snapshot,
        nodes={**snapshot.nodes, NOT_STARTED: source},
        guests={
            **snapshot.guests,
            **{name: replace(model, id=name) for name in names},
        },
        rules=tuple(_with_members(rule, request, names) for rule in snapshot.rules),
    )
    return with_chosen(with_guests, closed=(NOT_STARTED,))


def _with_members(rule: Rule, request: StartRequest, names: list[GuestId]) -> Rule:
    """Return *rule* with the guests *names* if it applies to those of *request*."""
    if isinstance(rule, MutualAntiAffinity) and request.like in rule.other_guests:
        return replace(rule, other_guests=rule.other_guests | frozenset(names))
    bound = Affinity | DomainAffinity | AntiAffinity | MutualAntiAffinity | NodeAffinity
    if not isinstance(rule, bound):
        return rule
    tags = {f"tag {tag}" for tag in request.tags}  # origin of rules of Proxmox VE tags
    if request.like not in rule.guests and rule.origin not in tags:
        return rule
    return replace(rule, guests=rule.guests | frozenset(names))


def _ranked_nodes(
    state: PlacementState, group: DisplacedGroup, prevented: Collection[int]
) -> Iterator[RankedNode]:
    arrays, scores = state.arrays, state.scores(group)
    soft, priority = state.soft_violations(group), arrays.priority(group.part)
    added = Resources(*_cpu_and_memory(group))
    for index in _best_first(state, group):
        if index in prevented:
            continue
        cpu, memory = state.usage[index].tolist()
        capacity = arrays.snapshot.nodes[arrays.node_ids[index]].capacity
        assert capacity is not None  # noqa: S101 - feasible nodes are measured
        before = NodeLoad(capacity, Resources(cpu, int(memory)))
        yield RankedNode(
            node=arrays.node_ids[index],
            score=float(scores[index]),
            before=before,
            after=before.with_guest(added),
            soft_violations=int(soft[index]),
            priority=_whole(float(priority[index])),
        )


def _whole(value: float) -> float:
    """Return *value*, as an integer if it is whole."""
    return int(value) if value.is_integer() else value


def _cpu_and_memory(group: DisplacedGroup) -> tuple[float, int]:
    cpu, memory = group.demand.tolist()
    return cpu, int(memory)


def _infeasible_nodes(
    state: PlacementState,
    group: DisplacedGroup,
    prevented: Mapping[int, tuple[InfeasibleReason, str]],
) -> Iterator[InfeasibleNode]:
    for index, reason in enumerate(infeasible_reasons(state, group)):
        name = state.arrays.node_ids[index]
        if reason is not None and name != NOT_STARTED:
            detail = describe_infeasible(state, group, index, reason)
            yield InfeasibleNode(name, reason, detail)
        elif index in prevented:
            yield InfeasibleNode(name, *prevented[index])
