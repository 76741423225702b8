"""If these hosts died now: the drill, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from opendrs.errors import UnknownNodeError
from opendrs.ha.documents import Datacenter
from opendrs.model import (
    Guest,
    GuestId,
    GuestState,
    Limits,
    Node,
    NodeId,
    NodeState,
    Relocation,
    Snapshot,
    Usage,
)
from opendrs.rules import Room, need, newly_broken, room_when_empty
from opendrs.sim.drill import actions
from opendrs.sim.drill.history import History, HistoryReader
from opendrs.sim.drill.lives import Life
from opendrs.sim.drill.log import Entry
from opendrs.sim.drill.losses import Casualty, Filled, Loss
from opendrs.sim.drill.parsing import Step
from opendrs.sim.drill.passes import Passes
from opendrs.sim.drill.restarts import restart_blocker
from opendrs.sim.drill.running import Drill, Watcher, begun, completed, ignored
from opendrs.sim.drill.stage import Stage, has_power, staged
from opendrs.sim.drill.timetable import Appointment, advance
from opendrs.sim.drill.wishes import Wish, Wishes

BLOW = 80  # seconds after the start; by then managers and agents are at rest
AFTERWARDS = 400  # seconds after that, at most; a lost master costs some 200
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
        watcher: Told the time before each pass.

    Raises:
        UnknownNodeError: A host is not in the snapshot.
    """
    losses = LossSimulation(
        snapshot,
        limits=limits,
        everyone=everyone,
        datacenter=datacenter,
        watcher=watcher,
    )
    return losses.loss_of(nodes, watcher)


@dataclass(frozen=True, slots=True)
class AfterLoss:
    """What happens from a loss on.

    Attributes:
        entries: What happened, in the order in which it was told.
        failure: Why the drill could not go on; None if it came to its end.
    """

    entries: tuple[Entry, ...]
    failure: str | None


class LossSimulation:
    """Simulates losses of nodes of one cluster; their common beginning only once.

    Args:
        snapshot: The cluster.
        limits: What the operator allows of memory.
        everyone: Whether every guest is a service, whatever it says.
        datacenter: The settings of the HA manager; None for the usual ones.
        watcher: Called with the time before each pass of the beginning.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        limits: Limits,
        everyone: bool = False,
        datacenter: Datacenter | None = None,
        watcher: Watcher = ignored,
    ) -> None:
        wishes = Wishes(otherwise=STAY, all_managed=everyone)
        self._stage = staged(snapshot, wishes, datacenter)
        self._limits = limits
        # Services stop only with their host here, and that is certain without a look.
        services = dict(sorted(self._stage.scenario.services.items()))
        self._scenario = replace(
            self._stage.scenario, services=services, rechecks=False
        )
        self._passes = Passes(self._scenario)
        opening = self._stage.opening
        self._due = 0

        def begin() -> None:
            self._due = advance(self._passes, opening, 0, BLOW - 1, watcher=watcher)

        self._failure = begun(self._passes, begin)
        self._reader = HistoryReader(self._scenario)
        self._reader.read(self._passes.site.log)
        self._before = self._reader.history()
        self._at_loss = self._where_guests_run()

    @property
    def service_count(self) -> int:
        """Return how many services there are."""
        return len(self._scenario.services)

    def loss_of(self, nodes: Collection[NodeId], watcher: Watcher = ignored) -> Loss:
        """Return what follows when *nodes* lose their power at once.

        Args:
            nodes: The hosts that die.
            watcher: Called with the time before each pass.

        Raises:
            UnknownNodeError: A host is not in the snapshot.
        """
        return self.loss_from(nodes, self.after_loss(nodes, watcher))

    def after_loss(
        self, nodes: Collection[NodeId], watcher: Watcher = ignored
    ) -> AfterLoss:
        """Simulate the loss of *nodes*, and return what happens from then on.

        Raises:
            UnknownNodeError: A host is not in the snapshot.
        """
        for node in nodes:
            if node not in self._stage.snapshot.nodes:
                raise UnknownNodeError(f"{node} is not a node of the cluster")
        passes = self._passes.copy()
        blows = [_blow(self._stage.names.nodes[node]) for node in sorted(nodes)]

        def run() -> None:
            end, settled = BLOW + AFTERWARDS, passes.site.is_settled
            advance(passes, blows, self._due, end, watcher=watcher, is_over=settled)

        drill = completed(self._scenario, passes, run, self._failure)
        return AfterLoss(drill.entries[len(self._passes.site.log) :], drill.failure)

    def loss_from(self, nodes: Collection[NodeId], end: AfterLoss) -> Loss:
        """Return what follows from the loss of *nodes* that was simulated as *end*."""
        entries = (*self._passes.site.log, *end.entries)
        reader = self._reader.copy()
        reader.read(end.entries)
        drill = Drill(self._scenario, entries, end.failure)
        return self._judged(tuple(sorted(nodes)), drill, reader.history())

    def _judged(self, lost: tuple[NodeId, ...], drill: Drill, history: History) -> Loss:
        stage, snapshot = self._stage, self._stage.snapshot
        at_loss = self._at_loss
        casualties = tuple(_casualties(stage, lost, at_loss, history))
        displaced = _displaced(stage, lost, at_loss, history)
        moved_before = {
            name: node
            for name, node in at_loss.items()
            if node != snapshot.guests[name].node
        }
        after = _aftermath(snapshot, lost, casualties, {**moved_before, **displaced})
        powered = [name for name, node in snapshot.nodes.items() if has_power(node)]
        return Loss(
            nodes=lost,
            quorate=len(set(powered) - set(lost)) > len(snapshot.nodes) // 2,
            casualties=casualties,
            filled=tuple(_filled(snapshot, after, self._limits)),
            broken=newly_broken(snapshot, after),
            displaced=tuple(sorted(displaced)),
            moved_before=tuple(sorted(moved_before)),
            master=min(powered, key=lambda name: stage.names.nodes[name]) in lost
            if powered
            else False,
            stage=stage,
            drill=drill,
            history=history,
        )

    def _where_guests_run(self) -> dict[GuestId, NodeId]:
        """Return where each guest that runs is when the nodes are lost."""
        names = self._stage.names
        found: dict[GuestId, NodeId] = {}
        for name, guest in self._stage.snapshot.guests.items():
            service = names.services.get(name)
            life = None if service is None else self._before.life(service)
            node = None if life is None else _node(self._stage, life)
            if guest.present:
                found[name] = node or guest.node
        return found


def _blow(name: NodeId) -> Appointment:
    step = Step(f"power {name} off", "the loss", actions.SetPower(name, on=False))
    return Appointment(BLOW, step)


def _casualties(
    stage: Stage,
    lost: Collection[NodeId],
    at_loss: Mapping[GuestId, NodeId],
    history: History,
) -> Iterator[Casualty]:
    for name, source in sorted(at_loss.items()):
        if source not in lost:
            continue
        guest, service = stage.snapshot.guests[name], stage.names.services.get(name)
        life = None if service is None else history.life(service)
        target = None if life is None else _node(stage, life)
        yield Casualty(
            guest=guest,
            source=source,
            managed=life is not None,
            target=target,
            down=None if life is None or target is None else life.downtime(history.end),
            blocker=restart_blocker(guest),
        )


def _displaced(
    stage: Stage,
    lost: Collection[NodeId],
    at_loss: Mapping[GuestId, NodeId],
    history: History,
) -> dict[GuestId, NodeId]:
    """Return where guests of other nodes are that moved because of the loss."""
    moved = {stage.names.guests[move.service] for move in history.moves}
    found: dict[GuestId, NodeId] = {}
    for name in moved & at_loss.keys():
        node = _node(stage, history.life(stage.names.services[name]))
        if at_loss[name] not in lost and node not in (None, at_loss[name]):
            found[name] = NodeId(str(node))
    return found


def _node(stage: Stage, life: Life) -> NodeId | None:
    node = life.last.node
    return None if node is None else stage.names.node(node)


def _aftermath(
    snapshot: Snapshot,
    lost: Collection[NodeId],
    casualties: Collection[Casualty],
    moved: Mapping[GuestId, NodeId],
) -> Snapshot:
    """Return the cluster as it is when the HA manager has come to rest."""
    restarted = {one.guest.id: one.target for one in casualties if one.target}
    after = snapshot
    for guest, target in sorted({**moved, **restarted}.items()):
        source = snapshot.guests[guest].node
        if source != target:
            after = after.after(Relocation(guest, source, target))
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
    here_before, here_after = _residents(before), _residents(after)
    for name in sorted(arrivals):
        yield Filled(
            node=before.nodes[name],
            before=_room(before.nodes[name], here_before.get(name, []), limits),
            after=_room(after.nodes[name], here_after.get(name, []), limits),
        )


def _residents(snapshot: Snapshot) -> dict[NodeId, list[Guest]]:
    residents: dict[NodeId, list[Guest]] = {}
    for guest in snapshot.guests.values():
        for node in guest.locations:
            residents.setdefault(node, []).append(guest)
    return residents


def _room(node: Node, here: Sequence[Guest], limits: Limits) -> Room:
    taken = Room(node.usage.memory, need(here).promised)
    return room_when_empty(node, limits).minus(taken)
