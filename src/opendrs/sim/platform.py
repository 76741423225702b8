"""The data centre as a platform, and its faults."""

from __future__ import annotations

from collections.abc import Callable

from opendrs.errors import PlatformUnavailableError
from opendrs.model import Action, GuestId, NodeId, PowerOff, PowerOn, Snapshot
from opendrs.ports import Clock, TaskId, TaskState, TaskStatus
from opendrs.sim.datacentre import NETWORK, Datacentre


class SimulatedPlatform:
    """A simulated cluster, as `opendrs.ports.Platform`.

    Args:
        origin: The cluster in the beginning.
        clock: Tells how far things have come; it may be read by others too.
        name: What the cluster is called.
        seed: Draws how guests behave.
        bandwidth: Bytes a second over the link of one node.
        swing: Part of its cpu use, in [0, 0.5], by which a guest's load varies.
    """

    def __init__(  # noqa: PLR0913 - each a property of the simulated world
        self,
        origin: Snapshot,
        clock: Clock,
        *,
        name: str = "simulation",
        seed: int = 0,
        bandwidth: float = NETWORK,
        swing: float = 0.03,
    ) -> None:
        self._name = name
        self._clock = clock
        self._reachable = True
        self._tasks: dict[TaskId, Action] = {}
        # The snapshot may be old: the simulated world begins now.
        self._began = clock.monotonic()
        self._datacentre = Datacentre(
            origin, seed=seed, bandwidth=bandwidth, swing=swing
        )

    @property
    def name(self) -> str:
        """Return what the cluster is called."""
        return self._name

    def observe(self) -> Snapshot:
        """Return the cluster as it is now."""
        return self._asked().observe(self._clock.now())

    def start(self, action: Action) -> TaskId:
        """Start *action* and return at once."""
        self._asked().begin(action)
        return self._named(action)

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given."""
        self._asked()
        return self._named(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands."""
        datacentre = self._asked()
        action = self._tasks.get(task)
        journey = datacentre.journey(action) if action is not None else None
        if journey is None:
            return TaskStatus(TaskState.LOST, f"{task} is not known")
        if not journey.running:
            return TaskStatus(journey.state, journey.detail)
        progress = journey.work.progress(datacentre.bandwidth_of(journey))
        return TaskStatus(TaskState.RUNNING, progress=progress)

    def abort(self, task: TaskId) -> None:
        """Ask for *task* to be given up."""
        datacentre = self._asked()
        if task in self._tasks:
            datacentre.give_up(self._tasks[task], "given up on request")

    def kill(self, node: NodeId) -> None:
        """Let *node* die, and the guests on it."""
        self._passed().kill(node)

    def cut(self, node: NodeId) -> None:
        """Cut the link of *node*: its guests run on, and none comes or goes."""
        self._passed().cut(node)

    def mend(self, node: NodeId) -> None:
        """Mend the link of *node*."""
        self._passed().mend(node)

    def agitate(self, guest: GuestId) -> None:
        """Let *guest* write more than can be sent, from its next migration on."""
        self._passed().agitate(guest)

    def forget(self, action: Action) -> None:
        """Lose the memory of *action*: its task is then lost."""
        self._passed().forget(action)

    def disconnect(self) -> None:
        """Answer nothing from now on, while the world goes its way."""
        self._reachable = False

    def reconnect(self) -> None:
        """Answer again."""
        self._reachable = True

    def later(self, seconds: float, fault: Callable[[], None]) -> None:
        """Let *fault*, such as a `kill`, happen *seconds* from now."""
        self._passed().later(seconds, fault)

    def _asked(self) -> Datacentre:
        datacentre = self._passed()
        if not self._reachable:
            raise PlatformUnavailableError(f"{self._name} does not answer")
        return datacentre

    def _passed(self) -> Datacentre:
        self._datacentre.advance(self._clock.monotonic() - self._began)
        return self._datacentre

    def _named(self, action: Action) -> TaskId:
        kind = type(action).__name__.lower()
        if isinstance(action, PowerOn | PowerOff):
            task = TaskId(f"{kind} {action.node}")
        else:
            journey = f"{action.guest} {action.source} {action.target}"
            task = TaskId(f"{kind} {journey}")
        self._tasks[task] = action
        return task
