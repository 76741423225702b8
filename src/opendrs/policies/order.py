"""The order in which steps are safe, whatever runs at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opendrs.model import (
    Action,
    Limits,
    Move,
    NodeId,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    StepId,
)
from opendrs.rules import NOBODY, CompiledRules, Room, Targets, need, room_when_empty


@dataclass(frozen=True, slots=True)
class Choice:
    """Moves that are made together, and why.

    Attributes:
        moves: One for each guest that goes along; all from one node to one.
        why: The reason, in words for the operator.
    """

    moves: tuple[Move, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A node that is woken or put to sleep, and why."""

    node: NodeId
    why: str


def ordered(  # noqa: PLR0913 - choices, the cluster they are for, and its nodes
    choices: Sequence[Choice],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    *,
    wake: Sequence[Switch] = (),
    sleep: Sequence[Switch] = (),
) -> Plan:
    """Return *choices* as a plan in which every interleaving is safe.

    Each choice must be safe once all before it are done, and no guest may move
    twice. A step waits only where it must: where there is not room on the
    target until somebody has left it, or somebody is there still from whom its
    guest must be apart, it and all later arrivals wait for all who leave there, and
    for all who arrived before: so each step is safe by its own waits alone, whatever
    is known of those of others.

    Args:
        choices: The moves, in an order in which they could be made one by one.
        snapshot: The cluster, in which nodes to wake stand as if they were.
        rules: Its rules.
        limits: What the operator allows.
        wake: Nodes that are woken first: arrivals wait for that.
        sleep: Nodes that are put to sleep once everybody has left; nobody arrives
            there, and who stays does not run.
    """
    order = _Order(snapshot, rules, limits)
    return order.plan(choices, wake, sleep)


class _Order:
    """The plan so far.

    Attributes:
        exact: The room of each node once all is done.
        worst: The same while all that was let go on there since the last wait
            is under way: arrivals have come, nobody has left.
        gone: Who has left each node since then.
        arrived: The steps to each node since then.
        leaving: All steps from each node, and the one that wakes it.
        waits: The steps that all later arrivals on a node wait for.
        ancestors: All steps that each step waits for, directly or not.
    """

    def __init__(
        self, snapshot: Snapshot, rules: CompiledRules, limits: Limits
    ) -> None:
        self.now = snapshot
        self.rules = rules
        self.limits = limits
        self.exact = dict(Targets(snapshot, rules, limits).room)
        self.worst = dict(self.exact)
        self.gone: dict[NodeId, set[str]] = {name: set() for name in snapshot.nodes}
        self.arrived: dict[NodeId, list[StepId]] = {name: [] for name in snapshot.nodes}
        self.leaving: dict[NodeId, list[StepId]] = {name: [] for name in snapshot.nodes}
        self.waits: dict[NodeId, tuple[StepId, ...]] = dict.fromkeys(snapshot.nodes, ())
        self.ancestors: dict[StepId, frozenset[StepId]] = {}
        self.steps: list[Step] = []

    def plan(
        self, choices: Iterable[Choice], wake: Iterable[Switch], sleep: Iterable[Switch]
    ) -> Plan:
        for switch in wake:
            self._wake(switch)
        for choice in choices:
            self._add(choice)
        for switch in sleep:
            after = self._last(self.leaving[switch.node])
            self._step(PowerOff(switch.node), after, switch.why)
        return Plan(tuple(self.steps))

    def _wake(self, switch: Switch) -> None:
        """Wake a node: all arrivals there wait for that, now and later."""
        step = self._step(PowerOn(switch.node), (), switch.why)
        self.waits[switch.node] = (step,)
        self.leaving[switch.node].append(step)

    def _step(self, action: Action, after: tuple[StepId, ...], why: str) -> StepId:
        name = StepId(str(len(self.steps) + 1))
        self.steps.append(Step(name, action, after, why))
        self.ancestors[name] = frozenset(after).union(
            *(self.ancestors[earlier] for earlier in after)
        )
        return name

    def _add(self, choice: Choice) -> None:
        source, target = choice.moves[0].source, choice.moves[0].target
        guests = [self.now.guests[move.guest] for move in choice.moves]
        asked = need(guests)
        if self._must_wait(choice, target, asked):
            self._wait(target)
        for move in choice.moves:
            step = self._step(move, self.waits[target], choice.why)
            self.arrived[target].append(step)
            self.leaving[source].append(step)
            self.gone[source].add(move.guest)
        self.worst[target] = self.worst[target].minus(asked)
        self.exact[target] = self.exact[target].minus(asked)
        most = room_when_empty(self.now.nodes[source], self.limits)
        self.exact[source] = self.exact[source].plus(asked, most)

    def _must_wait(self, choice: Choice, target: NodeId, asked: Room) -> bool:
        left = self.worst[target].minus(asked)
        if min(left.used or 0.0, left.promised or 0.0) < 0:
            return True
        return any(
            self.rules.apart.get(move.guest, NOBODY) & self.gone[target]
            for move in choice.moves
        )

    def _wait(self, target: NodeId) -> None:
        earlier = {*self.waits[target], *self.leaving[target], *self.arrived[target]}
        self.waits[target] = self._last(sorted(earlier, key=int))
        self.worst[target] = self.exact[target]
        self.gone[target] = set()
        self.arrived[target] = []

    def _last(self, steps: Iterable[StepId]) -> tuple[StepId, ...]:
        """Return those of *steps* for which none of the others waits."""
        steps = tuple(steps)
        implied = frozenset[StepId]().union(*(self.ancestors[each] for each in steps))
        return tuple(each for each in steps if each not in implied)
