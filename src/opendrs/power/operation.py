"""A power operation in progress: its request to the driver, its deadline and its confirmation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from opendrs.errors import OpenDRSError, PlatformError, PlatformUnavailableError
from opendrs.model import NodeId, NodeState, PowerOn, Snapshot
from opendrs.platforms.background import start_thread
from opendrs.power.driver import PowerAction, PowerDriver, PowerState


class PowerOperation:
    """One request to a driver, in a thread of its own.

    Args:
        action: What is wanted.
        driver: Who is asked.
        observe: Returns the cluster as it is now.
    """

    def __init__(
        self, action: PowerAction, driver: PowerDriver, observe: Callable[[], Snapshot]
    ) -> None:
        self._node, self._driver, self._observe = action.node, driver, observe
        self._lock = Lock()
        self._cancelled = self._sent = False
        request = self._power_on if isinstance(action, PowerOn) else self._power_off
        self._future = start_thread(lambda: _error_text(request))

    @property
    def is_pending(self) -> bool:
        """Return whether the driver has not answered yet."""
        return not self._future.done()

    @property
    def error_text(self) -> str | None:
        """Return why the request was not taken; None while nobody said so."""
        return self._future.result() if self._future.done() else None

    @property
    def may_take_effect(self) -> bool:
        """Return whether the driver was asked, or may still be."""
        return self._sent or (self.is_pending and not self._cancelled)

    def cancel(self) -> None:
        """Ask the driver no more, unless it was asked already."""
        with self._lock:
            self._cancelled = True

    def _power_on(self) -> None:
        try:
            node = self._observe().nodes.get(self._node)
        except PlatformUnavailableError:
            pass  # when all nodes sleep, none can tell
        else:
            if node is None:
                raise PlatformError(f"{self._node} is not a node of the cluster")
            if node.online:
                return
        self._send(self._driver.on)

    def _power_off(self) -> None:
        if _power_state(self._driver) is PowerState.OFF:
            return
        require_empty(self._node, self._observe())
        try:
            self._send(self._driver.off)
        except PlatformError:
            if not (self._sent and self._driver.detached):
                raise

    def _send(self, request: Callable[[], None]) -> None:
        """Hand *request* over: the last moment at which it can be given up."""
        with self._lock:
            if self._cancelled:
                raise PlatformError(f"{self._node} was not asked: it was given up")
            self._sent = True
        request()


def require_empty(name: NodeId, snapshot: Snapshot) -> None:
    """Check that a node can be seen, and nobody on it: not stopped, not arriving.

    Raises:
        PlatformError: It cannot be seen, or somebody is there.
    """
    node = snapshot.nodes.get(name)
    if node is None or not node.reachable:
        raise PlatformError(
            f"{name} stays on: its state is {node.state if node else 'not known'}, so "
            "whether somebody is on it cannot be seen"
        )
    guests = snapshot.guests.values()
    guest_ids = sorted(g.id for g in guests if name in (g.node, g.migrating_to))
    if guest_ids:
        raise PlatformError(
            f"{name} stays on: it is not empty ({', '.join(guest_ids)})"
        )


def _power_state(driver: PowerDriver) -> PowerState:
    """Return the state before anything is asked; not to know it hinders nothing."""
    try:
        return driver.state()
    except PlatformError:
        return PowerState.UNKNOWN


def _error_text(work: Callable[[], None]) -> str | None:
    """Do *work* and return what went wrong, in words; None when nothing did."""
    try:
        work()
    except OpenDRSError as error:
        return str(error)
    return None


@dataclass(slots=True)
class PowerDeadline:
    """The wait for one switch.

    Attributes:
        started_at: When it began, in seconds.
        operation: What this process has asked for; None when another process did, or
            nobody.
        cancelled: Whether nobody waits any more.
    """

    started_at: float
    operation: PowerOperation | None = None
    cancelled: bool = False

    @property
    def is_pending(self) -> bool:
        """Return whether the driver has not answered yet."""
        return self.operation is not None and self.operation.is_pending

    def cancel(self) -> None:
        """Wait no longer, and ask the driver no more if it was not asked yet."""
        self.cancelled = True
        if self.operation is not None:
            self.operation.cancel()

    def failure(self, node: NodeId, timeout: float, now: float) -> str | None:
        """Return why the wait is over for what is not confirmed; None if it is not."""
        error_text = None if self.operation is None else self.operation.error_text
        if error_text is not None:
            return error_text
        if self.cancelled:
            return "no longer waited for"
        if now - self.started_at >= timeout:
            return f"{node} did not follow within {timeout:g} s"
        return None


_UNRESPONSIVE_STATES = frozenset({NodeState.UNKNOWN, NodeState.OFFLINE})


class UnresponsiveTimer:
    """For how long nodes have not answered, from look to look.

    Args:
        now: Returns seconds that only ever grow.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[NodeId, float] = {}

    def update(self, snapshot: Snapshot) -> Snapshot:
        """Take note of who answers in *snapshot*, and return it."""
        for name, node in snapshot.nodes.items():
            if node.state in _UNRESPONSIVE_STATES:
                self._since.setdefault(name, self._now())
            else:
                self._since.pop(name, None)
        return snapshot

    def elapsed(self, node: NodeId) -> float | None:
        """Return the seconds since *node* first did not answer; None if it does."""
        since = self._since.get(node)
        return None if since is None else self._now() - since
