"""If these hosts died now: the drill, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from opendrs.errors import UnknownNodeError
from opendrs.ha.documents import Datacenter
from opendrs.model import (
    GuestId,
    GuestState,
    Limits,
    NodeId,
    NodeState,
    Relocation,
    Snapshot,
    Usage,
)
from opendrs.rules import Room, need, newly_broken, room_when_empty
from opendrs.sim.drill import actions
from opendrs.sim.drill.history import History, history_of
from opendrs.sim.drill.lives import Life
from opendrs.sim.drill.losses import Casualty, Filled, Loss
from opendrs.sim.drill.parsing import Step
from opendrs.sim.drill.running import Drill, Watcher, ignored
from opendrs.sim.drill.stage import Stage, has_power, staged
from opendrs.sim.drill.timetable import Appointment, keep_timetable
from opendrs.sim.drill.wishes import Wish, Wishes

BLOW = 80  # seconds after the start; by then managers and agents are at rest
AFTERWARDS = 300  # seconds after that; a lost master costs the most, some 200
# So that nothing goes to a better node before the blow; recovery is not affected.
STAY = Wish(failback=False)


def loss_of(  # noqa: PLR0913 - all but the first two have a usual value
    snapshot: Snapshot,
    nodes: Collection[NodeId],
    *,
    limits: Limits,
    everyone: bool = False,
    datacenter: Datacenter | None = None,
    watcher: Watcher = ignored,
) -> Loss:
    """Return what follows when *nodes* lose their power at once.

    Args:
        snapshot: The cluster.
        nodes: The hosts that die.
        limits: What the operator allows of memory.
        everyone: Whether every guest is a service, whatever it says.
        datacenter: The settings of the HA manager; None for the usual ones.
        watcher: Told the time after each pass.

    Raises:
        UnknownNodeError: A host is not in the snapshot.
    """
    for node in nodes:
        if node not in snapshot.nodes:
            raise UnknownNodeError(f"{node} is not a node of the cluster")
    stage = staged(snapshot, Wishes(otherwise=STAY, all_managed=everyone), datacenter)
    lost = tuple(sorted(nodes))
    steps = [*stage.opening, *(_blow(stage.names.nodes[node]) for node in lost)]
    drill = keep_timetable(stage.scenario, steps, watcher=watcher, quiet=AFTERWARDS)
    return _judged(stage, lost, drill, limits)


def _blow(name: NodeId) -> Appointment:
    step = Step(f"power {name} off", "the loss", actions.SetPower(name, on=False))
    return Appointment(BLOW, step)


def _judged(
    stage: Stage, lost: tuple[NodeId, ...], drill: Drill, limits: Limits
) -> Loss:
    snapshot, history = stage.snapshot, history_of(drill)
    casualties = tuple(_casualties(stage, lost, history))
    displaced = _displaced(stage, lost, history)
    after = _aftermath(snapshot, lost, casualties, displaced)
    powered = [name for name, node in snapshot.nodes.items() if has_power(node)]
    return Loss(
        nodes=lost,
        quorate=len(set(powered) - set(lost)) > len(snapshot.nodes) // 2,
        casualties=casualties,
        filled=tuple(_filled(snapshot, after, limits)),
        broken=newly_broken(snapshot, after),
        displaced=tuple(sorted(displaced)),
        master=min(powered, key=lambda name: stage.names.nodes[name]) in lost
        if powered
        else False,
        stage=stage,
        drill=drill,
        history=history,
    )


def _casualties(
    stage: Stage, lost: Collection[NodeId], history: History
) -> Iterator[Casualty]:
    for name, guest in sorted(stage.snapshot.guests.items()):
        if guest.node not in lost or not guest.present:
            continue
        service = stage.names.services.get(name)
        life = None if service is None else history.life(service)
        target = None if life is None else _node(stage, life)
        yield Casualty(
            guest=guest,
            source=guest.node,
            managed=life is not None,
            target=target,
            down=None if life is None or target is None else life.downtime(history.end),
        )


def _displaced(
    stage: Stage, lost: Collection[NodeId], history: History
) -> dict[GuestId, NodeId]:
    """Return where guests of other nodes are that are elsewhere now."""
    moved = {stage.names.guests[move.service] for move in history.moves}
    found: dict[GuestId, NodeId] = {}
    for name in moved:
        guest = stage.snapshot.guests[name]
        node = _node(stage, history.life(stage.names.services[name]))
        if guest.node not in lost and node not in (None, guest.node):
            found[name] = NodeId(str(node))
    return found


def _node(stage: Stage, life: Life) -> NodeId | None:
    node = life.last.node
    return None if node is None else stage.names.node(node)


def _aftermath(
    snapshot: Snapshot,
    lost: Collection[NodeId],
    casualties: Collection[Casualty],
    displaced: Mapping[GuestId, NodeId],
) -> Snapshot:
    """Return the cluster as it is when the HA manager has come to rest."""
    places = {one.guest.id: one.target for one in casualties if one.target is not None}
    after = snapshot
    for guest, target in sorted({**places, **displaced}.items()):
        move = Relocation(guest, snapshot.guests[guest].node, target)
        after = after.after(move)
    dead = {
        one.guest.id: replace(one.guest, state=GuestState.STOPPED)
        for one in casualties
        if one.target is None
    }
    offline = {
        name: replace(after.nodes[name], state=NodeState.OFFLINE, usage=Usage())
        for name in lost
    }
    return replace(
        after, guests={**after.guests, **dead}, nodes={**after.nodes, **offline}
    )


def _filled(before: Snapshot, after: Snapshot, limits: Limits) -> Iterator[Filled]:
    """Yield the nodes that have guests which were elsewhere before."""
    arrivals = {
        guest.node
        for name, guest in after.guests.items()
        if guest.node != before.guests[name].node
    }
    for name in sorted(arrivals):
        yield Filled(
            node=before.nodes[name],
            before=_room(before, name, limits),
            after=_room(after, name, limits),
        )


def _room(snapshot: Snapshot, name: NodeId, limits: Limits) -> Room:
    node = snapshot.nodes[name]
    here = [guest for guest in snapshot.guests.values() if name in guest.locations]
    taken = Room(node.usage.memory, need(here).promised)
    return room_when_empty(node, limits).minus(taken)
