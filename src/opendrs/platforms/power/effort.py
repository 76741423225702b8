"""The switching of one node, as far as this process has asked for it.

What comes of it is not judged here but by what is seen. What is kept is whether
the request is still being handed over, and why that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from opendrs.errors import OpenDRSError, PlatformError, PlatformUnavailableError
from opendrs.model import NodeId, PowerOn, Snapshot
from opendrs.platforms.background import begun
from opendrs.platforms.power.driver import Driver, PowerState
from opendrs.platforms.power.task import Switch


class Effort:
    """One request to a driver, in a thread of its own.

    Args:
        switch: What is wanted.
        driver: Who is asked.
        look: Returns the cluster as it is now.
    """

    def __init__(
        self, switch: Switch, driver: Driver, look: Callable[[], Snapshot]
    ) -> None:
        self._node, self._driver, self._look = switch.node, driver, look
        self._lock = Lock()
        self._given_up = self._asked = False
        work = self._wake if isinstance(switch, PowerOn) else self._put_to_sleep
        self._end = begun(lambda: _words_of(work))

    @property
    def under_way(self) -> bool:
        """Return whether the driver has not answered yet."""
        return not self._end.done()

    @property
    def complaint(self) -> str | None:
        """Return why the request was not taken; None while nobody said so."""
        return self._end.result() if self._end.done() else None

    @property
    def may_follow(self) -> bool:
        """Return whether the driver was asked, or may still be."""
        return self._asked or (self.under_way and not self._given_up)

    def give_up(self) -> None:
        """Ask the driver no more, unless it was asked already."""
        with self._lock:
            self._given_up = True

    def _wake(self) -> None:
        try:
            node = self._look().nodes.get(self._node)
        except PlatformUnavailableError:
            pass  # when all nodes sleep, none can tell
        else:
            if node is None:
                raise PlatformError(f"{self._node} is not a node of the cluster")
            if node.online:
                return
        self._ask(self._driver.on)

    def _put_to_sleep(self) -> None:
        if _state(self._driver) is PowerState.OFF:
            return
        require_empty(self._node, self._look())
        try:
            self._ask(self._driver.off)
        except PlatformError:
            if not (self._asked and self._driver.detached):
                raise

    def _ask(self, request: Callable[[], None]) -> None:
        """Hand *request* over: the last moment at which it can be given up."""
        with self._lock:
            if self._given_up:
                raise PlatformError(f"{self._node} was not asked: it was given up")
            self._asked = True
        request()


def require_empty(name: NodeId, seen: Snapshot) -> None:
    """Check that a node can be seen, and nobody on it: not stopped, not arriving.

    Raises:
        PlatformError: It cannot be seen, or somebody is there.
    """
    node = seen.nodes.get(name)
    if node is None or not node.reachable:
        raise PlatformError(
            f"{name} stays on: its state is {node.state if node else 'not known'}, so "
            "whether somebody is on it cannot be seen"
        )
    guests = seen.guests.values()
    there = sorted(g.id for g in guests if name in (g.node, g.migrating_to))
    if there:
        raise PlatformError(f"{name} stays on: it is not empty ({', '.join(there)})")


def _state(driver: Driver) -> PowerState:
    """Return the state before anything is asked; not to know it hinders nothing."""
    try:
        return driver.state()
    except PlatformError:
        return PowerState.UNKNOWN


def _words_of(work: Callable[[], None]) -> str | None:
    """Do *work* and return what went wrong, in words; None when nothing did."""
    try:
        work()
    except OpenDRSError as error:
        return str(error)
    return None
