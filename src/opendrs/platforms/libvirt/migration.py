"""Start of live migrations, and task ids that any process can query."""

from __future__ import annotations

from concurrent.futures import wait
from contextlib import suppress
from functools import partial

from opendrs.errors import PlatformError
from opendrs.platforms.libvirt.client import (
    LibvirtConnection,
    RawConnection,
    RawDomain,
    error_details,
    load_library,
    open_connection,
)
from opendrs.platforms.libvirt.errors import migration_error_text
from opendrs.platforms.libvirt.queries import start_post_copy
from opendrs.platforms.libvirt.settings import MIB, LibvirtSettings
from opendrs.ports import GuestTask
from opendrs.transport.threads import error_text, start_thread


class StartedMigration:
    """A migration that runs in a separate thread with its own connection.

    libvirt blocks the connection of a migration, so queries about it need another.
    """

    def __init__(
        self, task: LibvirtTask, source: LibvirtConnection, settings: LibvirtSettings
    ) -> None:
        migrate = partial(_migrate, task, source, settings)
        self._future = start_thread(lambda: error_text(migrate))
        if settings.post_copy:
            start_thread(
                lambda: self._start_post_copy_later(
                    task, source, settings.post_copy_after
                )
            )

    @property
    def is_running(self) -> bool:
        """Return True while the call of libvirt has not returned."""
        return not self._future.done()

    @property
    def error_text(self) -> str | None:
        """Return the error of the migration; None without an error so far."""
        return self._future.result() if self._future.done() else None

    def wait_for_end(self, seconds: float) -> bool:
        """Wait at most *seconds* for the end; return False on timeout."""
        return bool(wait((self._future,), seconds).done)

    def _start_post_copy_later(
        self, task: LibvirtTask, source: LibvirtConnection, delay: float
    ) -> None:
        # If the switch to post-copy fails, the migration continues in pre-copy.
        with suppress(PlatformError):
            if not self.wait_for_end(delay):
                source.query(partial(start_post_copy, uuid=task.uuid))


def _migrate(
    task: LibvirtTask, source: LibvirtConnection, settings: LibvirtSettings
) -> None:
    connection = open_connection(source.node, source.uri)
    uri = settings.peer_uri(task.target)
    try:
        domain = connection.lookupByUUIDString(task.uuid)
        flags = _flags(domain, settings)
        domain.migrateToURI3(uri, _parameters(domain, settings), flags)
    except load_library().libvirtError as error:
        libvirt_error = error_details(error)
        detail = migration_error_text(
            libvirt_error, task.guest, task.source, task.target
        )
        raise PlatformError(detail) from None
    finally:
        _close(connection)


def _close(connection: RawConnection) -> None:
    with suppress(load_library().libvirtError):
        connection.close()


def _flags(domain: RawDomain, settings: LibvirtSettings) -> int:
    if not domain.isActive():
        names = ["OFFLINE", "PEER2PEER", "PERSIST_DEST", "UNDEFINE_SOURCE"]
        return sum(getattr(load_library(), f"VIR_MIGRATE_{name}") for name in names)
    names = ["LIVE", "PEER2PEER"]
    if domain.isPersistent():
        names += ["PERSIST_DEST", "UNDEFINE_SOURCE"]
    if settings.auto_converge:
        names += ["AUTO_CONVERGE"]
    if settings.post_copy:
        names += ["POSTCOPY"]
    if settings.unsafe:
        names += ["UNSAFE"]
    return sum(getattr(load_library(), f"VIR_MIGRATE_{name}") for name in names)


def _parameters(domain: RawDomain, settings: LibvirtSettings) -> dict[str, int]:
    if settings.bandwidth is None or not domain.isActive():
        return {}
    return {load_library().VIR_MIGRATE_PARAM_BANDWIDTH: settings.bandwidth // MIB}


class LibvirtTask(GuestTask):
    """Contents of a task id; the uuid is empty if the guest was on neither host."""

    __slots__ = ()
    platform = "a libvirt"
