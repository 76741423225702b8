"""Task ids of platforms that give migrations no id of their own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar, Self

from opendrs.errors import PlatformError
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.ports.platform import TaskId


@dataclass(frozen=True, slots=True)
class GuestTask:
    """Contents of a task id: the migration, and the uuid of its guest.

    It is the base of one class for each platform.

    Attributes:
        platform: Name of the platform with its article, for error messages.
        guest: Id of the guest.
        uuid: Its uuid on the platform; empty if it did not exist.
        source: Source node.
        target: Target node.
    """

    platform: ClassVar[str]

    guest: GuestId
    uuid: str
    source: NodeId
    target: NodeId

    @classmethod
    def from_migration(cls, migration: LiveMigration, uuid: str) -> Self:
        """Return the task of *migration* of the guest *uuid*."""
        return cls(migration.guest, uuid, migration.source, migration.target)

    @classmethod
    def parse(cls, text: TaskId) -> Self:
        """Return the task with the id *text*.

        Raises:
            PlatformError: *text* is not the id of a migration on this platform.
        """
        try:
            fields = json.loads(text)
            uuid, guest = str(fields["uuid"]), GuestId(str(fields["guest"]))
            source, target = str(fields["source"]), str(fields["target"])
        except (ValueError, KeyError, TypeError) as error:
            raise PlatformError(f"not {cls.platform} task id: {text!r}") from error
        return cls(guest, uuid, NodeId(source), NodeId(target))

    @property
    def id(self) -> TaskId:
        """Return the task id; equal migrations have equal ids."""
        return TaskId(json.dumps(asdict(self), sort_keys=True, ensure_ascii=False))
