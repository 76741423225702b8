"""The migrations this process has started.

A peer-to-peer migration is done by the two hosts: it goes on when the process
that asked for it ends. What is kept here is only why one failed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from functools import partial

from opendrs.errors import OpenDRSError, PlatformError
from opendrs.platforms.background import begun
from opendrs.platforms.libvirt.client import Host, opened
from opendrs.platforms.libvirt.failures import cause
from opendrs.platforms.libvirt.library import Connection, Domain, failure, library
from opendrs.platforms.libvirt.questions import go_on_at_target
from opendrs.platforms.libvirt.settings import MIB, LibvirtSettings
from opendrs.platforms.libvirt.task import Task


class Effort:
    """One migration, in a thread and over a connection of its own.

    libvirt blocks the connection that migrates, so all questions about the
    migration go over another.
    """

    def __init__(self, task: Task, source: Host, settings: LibvirtSettings) -> None:
        migrate = partial(_migrate, task, source, settings)
        self._end = begun(lambda: _words_of(migrate))
        if settings.post_copy:
            begun(lambda: self._switch(task, source, settings.post_copy_after))

    @property
    def under_way(self) -> bool:
        """Return whether libvirt has not answered yet."""
        return not self._end.done()

    @property
    def failure(self) -> str | None:
        """Return why it failed, or None while it has not."""
        return self._end.result() if self._end.done() else None

    def ended_within(self, seconds: float) -> bool:
        """Wait for the end; return whether it came."""
        return bool(wait((self._end,), seconds).done)

    def _switch(self, task: Task, source: Host, after: float) -> None:
        # A switch that is refused leaves the migration as it is: copying.
        with suppress(PlatformError):
            if not self.ended_within(after):
                source.ask(partial(go_on_at_target, uuid=task.uuid))


def _words_of(work: Callable[[], None]) -> str | None:
    """Do *work* and return what went wrong, in words; None when nothing did."""
    try:
        work()
    except OpenDRSError as error:
        return str(error)
    return None


def _migrate(task: Task, source: Host, settings: LibvirtSettings) -> None:
    connection = opened(source.node, source.uri)
    uri = settings.peer_uri(task.target)
    try:
        domain = connection.lookupByUUIDString(task.uuid)
        flags = _flags(domain, settings)
        domain.migrateToURI3(uri, _parameters(settings), flags)
    except library().libvirtError as error:
        told = failure(error)
        why = cause(told, task.guest, task.source, task.target)
        raise PlatformError(why) from None
    finally:
        _close(connection)


def _close(connection: Connection) -> None:
    with suppress(library().libvirtError):
        connection.close()


def _flags(domain: Domain, settings: LibvirtSettings) -> int:
    names = ["LIVE", "PEER2PEER"]
    if domain.isPersistent():
        names += ["PERSIST_DEST", "UNDEFINE_SOURCE"]
    if settings.auto_converge:
        names += ["AUTO_CONVERGE"]
    if settings.post_copy:
        names += ["POSTCOPY"]
    if settings.unsafe:
        names += ["UNSAFE"]
    return sum(getattr(library(), f"VIR_MIGRATE_{name}") for name in names)


def _parameters(settings: LibvirtSettings) -> dict[str, int]:
    if settings.bandwidth is None:
        return {}
    return {library().VIR_MIGRATE_PARAM_BANDWIDTH: settings.bandwidth // MIB}
