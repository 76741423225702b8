"""What the record tells of nodes that were switched, and did not follow.

A node that did not wake would be chosen again and again, and one that did not go to
sleep may still do so, with whoever was moved there meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from opendrs.model import Node, NodeId, NodeState, PowerOff, PowerOn, Snapshot
from opendrs.platforms.power import LATE
from opendrs.ports import Outcome, StepRecord, Store

FIRST_REST = timedelta(minutes=15)  # for a node that did not wake
LONGEST_REST = timedelta(hours=4)  # however often it did not
LOOKED_BACK = timedelta(days=1)
_NEVER_ASKED = frozenset({Outcome.REFUSED, Outcome.SKIPPED})


@dataclass(frozen=True, slots=True)
class PowerFailure:
    """A switch that a node did not follow, as far as is known.

    Attributes:
        switch: What was wanted last.
        tries: How often in a row.
        ended_at: When it was given up.
    """

    switch: PowerOn | PowerOff
    tries: int
    ended_at: datetime

    def state_of(self, node: Node, now: datetime) -> NodeState:
        """Return as what *node* counts because of it."""
        elapsed = now - min(self.ended_at, now)
        if isinstance(self.switch, PowerOn):
            # Beyond 2 ** 10 the longest rest has long been reached.
            rest = min(LONGEST_REST, FIRST_REST * 2 ** min(self.tries - 1, 10))
            if node.state is NodeState.OFFLINE and elapsed < rest:
                return NodeState.UNKNOWN
        elif node.online and elapsed < timedelta(seconds=LATE):
            return NodeState.MAINTENANCE
        return node.state


def without_the_unsure(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with nodes left alone that lately were switched in vain.

    One that sleeps and did not wake is unknown, so that another is woken: for 15
    minutes, and twice as long each time. One that is online and was not seen to go
    to sleep is in maintenance for half an hour: it receives nobody.

    Raises:
        StoreError: The record cannot be read.
    """
    return without(snapshot, power_failures(store, snapshot.taken_at))


def power_failures(store: Store, now: datetime) -> tuple[PowerFailure, ...]:
    """Return for each node its last switch, if it was not seen to be followed so far.

    Raises:
        StoreError: The record cannot be read.
    """
    return tuple(_failures(store.recent(now - LOOKED_BACK)))


def without(snapshot: Snapshot, failures: Iterable[PowerFailure]) -> Snapshot:
    """Return *snapshot* as `without_the_unsure` does, because of *failures*."""
    nodes = dict(snapshot.nodes)
    for failure in failures:
        node = nodes.get(failure.switch.node)
        if node is not None:
            state = failure.state_of(node, snapshot.taken_at)
            nodes[node.id] = replace(node, state=state)
    return replace(snapshot, nodes=nodes)


def _failures(records: tuple[StepRecord, ...]) -> Iterator[PowerFailure]:
    """Yield for each node its last switch, if that was not seen to be followed."""
    found: dict[NodeId, PowerFailure] = {}
    for record in records:
        switch = record.action
        if not isinstance(switch, PowerOn | PowerOff) or record.outcome in _NEVER_ASKED:
            continue
        before = found.pop(switch.node, None)
        if record.outcome is Outcome.DONE:
            continue
        tries = before.tries if before is not None and before.switch == switch else 0
        ended_at = record.ended_at or record.intended_at
        found[switch.node] = PowerFailure(switch, tries + 1, ended_at)
    yield from found.values()
