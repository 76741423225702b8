"""Migrations and other operations of instances, and the status of a migration.

Incus forgets an operation 5 s after its end, and with it the reason of a failure. The
location of the instance then determines what became of a migration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opendrs.model import Migration
from opendrs.platforms.incus.responses import READY, RUNNING, Instance, Operation
from opendrs.platforms.incus.values import InstanceKey, guest_id, key_from_url
from opendrs.ports import GuestTask, TaskState, TaskStatus
from opendrs.transport.http_json import single_line

MIGRATING, CREATING = "Migrating instance", "Creating instance"
# Operations of users of an instance, which may last for ever and do not lock it.
_SESSIONS = ("Executing command", "Showing console")
_PROGRESS_KEYS = (
    "live_migrate_instance_progress",
    "block_progress",
    "fs_progress",
    "migrate_progress",
)


class IncusTask(GuestTask):
    """Contents of a task id; the uuid is volatile.uuid of the instance."""

    __slots__ = ()
    platform = "an Incus"

    @classmethod
    def of_instance(cls, migration: Migration, instance: Instance | None) -> IncusTask:
        """Return the task of *migration* of *instance*; None if it does not exist."""
        uuid = "" if instance is None else instance_uuid(instance)
        return cls.from_migration(migration, uuid)


def instance_uuid(instance: Instance) -> str:
    """Return the uuid of an instance, which it keeps when it migrates."""
    return instance.config.get("volatile.uuid", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceJob:
    """Operation in progress on an instance.

    Attributes:
        description: Description in the words of Incus.
        migration: Operation of the migration; None for another job.
        target: Member that receives it; None if it is not known yet.
    """

    description: str
    migration: Operation | None = None
    target: str | None = None


def running_jobs(operations: Iterable[Operation]) -> dict[InstanceKey, InstanceJob]:
    """Return the operations in progress by instance.

    A migration is an operation on the source. While another creates the instance on the
    target, its member is the target.
    """
    by_instance: dict[InstanceKey, list[Operation]] = {}
    for operation in operations:
        if operation.is_running and operation.description not in _SESSIONS:
            for key in _instances_of(operation):
                by_instance.setdefault(key, []).append(operation)
    return {key: _job(running) for key, running in by_instance.items()}


def _instances_of(operation: Operation) -> set[InstanceKey]:
    urls = (url for urls in operation.resources.values() for url in urls)
    return {key for url in urls if (key := key_from_url(url)) is not None}


def _job(running: list[Operation]) -> InstanceJob:
    migrations = [each for each in running if each.description == MIGRATING]
    if not migrations:
        return InstanceJob(description=running[0].description)
    tasks = [each for each in migrations if each.kind == "task"]
    targets = [each.location for each in running if each.description == CREATING]
    return InstanceJob(
        description=MIGRATING,
        migration=(tasks or migrations)[0],
        target=targets[0] if targets else None,
    )


def task_status(
    task: IncusTask, operation: Operation | None, instance: Instance | None
) -> TaskStatus:
    """Return the status of *task*.

    Args:
        task: The task.
        operation: The operation of the migration, running or ended; None if Incus has
            forgotten it.
        instance: The instance; None if it does not exist. Not used while the operation
            is running.
    """
    if operation is not None and operation.is_running:
        return TaskStatus(TaskState.RUNNING, progress_detail(operation.metadata))
    if instance is None or (task.uuid and instance_uuid(instance) != task.uuid):
        return TaskStatus(TaskState.LOST, f"{task.guest}: no such instance")
    where = f"{guest_id(instance.key)} is on {instance.location} ({instance.status})"
    if instance.location == task.target:
        return _status_on_target(task, instance, operation, where)
    if instance.location != task.source:
        return TaskStatus(TaskState.LOST, where)
    if operation is None:
        detail = "no migration in progress: it failed, or never started"
    elif operation.err:
        detail = single_line(operation.err)
    else:
        detail = f"migration ended: {operation.status}"
    return TaskStatus(TaskState.FAILED, f"{detail}; {where}")


def _status_on_target(
    task: IncusTask, instance: Instance, operation: Operation | None, where: str
) -> TaskStatus:
    runs = instance.status_code in (RUNNING, READY)
    if not runs and not task.is_relocation:
        error = single_line(operation.err) if operation is not None else ""
        return TaskStatus(TaskState.FAILED, "; ".join(filter(None, (error, where))))
    return TaskStatus(TaskState.DONE, where)


def progress_detail(metadata: Mapping[str, object]) -> str:
    """Return the progress of a migration as text; empty if Incus reports none.

    Only known keys are used: the metadata of migrations contains secrets.
    """
    for key in _PROGRESS_KEYS:
        text = metadata.get(key)
        if isinstance(text, str) and text:
            return single_line(text)
    return ""
