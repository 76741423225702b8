"""Names of migrations that any process can ask after."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from opendrs.errors import PlatformError
from opendrs.model import GuestId, Migration, NodeId
from opendrs.ports import TaskId


@dataclass(frozen=True, slots=True)
class Task:
    """One migration as it is written into a task id.

    Attributes:
        guest: What opendrs calls the guest.
        uuid: What libvirt calls it; empty when it was on neither host.
        source: The node it leaves.
        target: The node it goes to.
    """

    guest: GuestId
    uuid: str
    source: NodeId
    target: NodeId

    @classmethod
    def of(cls, migration: Migration, uuid: str) -> Task:
        """Return the task that moves the guest *uuid*."""
        return cls(migration.guest, uuid, migration.source, migration.target)

    @classmethod
    def read(cls, text: TaskId) -> Task:
        """Return the task of which *text* is the id.

        Raises:
            PlatformError: It is not the id of a libvirt migration.
        """
        try:
            fields = json.loads(text)
            uuid, guest = str(fields["uuid"]), GuestId(str(fields["guest"]))
            source, target = str(fields["source"]), str(fields["target"])
        except (ValueError, KeyError, TypeError) as error:
            raise PlatformError(f"not a task of libvirt: {text!r}") from error
        return cls(guest, uuid, NodeId(source), NodeId(target))

    @property
    def id(self) -> TaskId:
        """Return the task as text: the same migration gives the same text."""
        return TaskId(json.dumps(asdict(self), sort_keys=True, ensure_ascii=False))
