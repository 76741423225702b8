"""Privileges that the adapter needs, and the commands that grant them.

Without a privilege most lists have fewer rows or no figures instead of an error, so the
permissions are read before anything else.

Source:
    `GET /access/permissions`: the privileges by path, each with a flag that says
    whether it also applies below the path. Recorded from Proxmox VE 9.2.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from opendrs.platforms.proxmox.errors import MissingPrivilegeError
from opendrs.platforms.proxmox.settings import ProxmoxSettings

ROLE = "OpenDRS"
Permissions = Mapping[str, Mapping[str, bool]]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A privilege on a path.

    Attributes:
        path: The path.
        privilege: The privilege.
        purpose: What needs it.
    """

    path: str
    privilege: str
    purpose: str


_READING = (
    Requirement("/", "Sys.Audit", "read nodes, HA, tasks and the scheduler"),
    Requirement("/vms", "VM.Audit", "read guests"),
)
_MIGRATING = (Requirement("/vms", "VM.Migrate", "migrate guests"),)
_POOLS = Requirement("/pool", "Pool.Audit", "read which guests are in a pool")
_STORAGE = (
    Requirement("/vms", "VM.Config.Disk", "copy local disks to target_storage"),
    Requirement("/storage", "Datastore.AllocateSpace", "copy disks to target_storage"),
)


def requirements(settings: ProxmoxSettings) -> tuple[Requirement, ...]:
    """Return all privileges that *settings* need."""
    storage = _STORAGE if settings.target_storage is not None else ()
    pools = (_POOLS,) if settings.pools else ()
    return (*_READING, *_MIGRATING, *storage, *pools)


def disk_move_requirements(storages: Iterable[str]) -> tuple[Requirement, ...]:
    """Return the privileges that moves of disks among *storages* need."""
    guests = Requirement("/vms", "VM.Config.Disk", "move disks of guests")
    allocating = (
        Requirement(f"/storage/{name}", "Datastore.AllocateSpace", "move disks to it")
        for name in storages
    )
    return (guests, *allocating)


def reading_storage(name: str) -> Requirement:
    """Return the privilege that reading the use of a storage needs."""
    purpose = "read its use, and the disks that may leave it"
    return Requirement(f"/storage/{name}", "Datastore.Audit", purpose)


def parse_permissions(data: Mapping[str, object]) -> Permissions:
    """Return the response of `GET /access/permissions`."""
    return {
        path: {name: str(below) == "1" for name, below in privileges.items()}
        for path, privileges in data.items()
        if isinstance(privileges, dict)
    }


def has_privilege(permissions: Permissions, path: str, privilege: str) -> bool:
    """Return True if *privilege* applies to *path* itself."""
    for candidate in _with_parents(path):
        granted = permissions.get(candidate)
        if granted is not None:
            below = granted.get(privilege)
            return below is not None and (candidate == path or below)
    return False


def _with_parents(path: str) -> Iterator[str]:
    """Return *path* and its parents, the root last."""
    while path != "/":
        yield path
        path = path.rpartition("/")[0] or "/"
    yield "/"


def pools_without_privilege(
    permissions: Permissions, settings: ProxmoxSettings
) -> list[str]:
    """Return the pools with a rule whose guests cannot be read."""
    return [
        name
        for name in sorted(settings.pools)
        if not has_privilege(permissions, f"/pool/{name}", _POOLS.privilege)
    ]


def require_permissions(permissions: Permissions, settings: ProxmoxSettings) -> None:
    """Check that the nodes, some guests, and the pools with rules can be read.

    A login may be limited to some guests or pools, and then observes those.

    Raises:
        MissingPrivilegeError: The cluster cannot be observed.
    """
    granted = {name for privileges in permissions.values() for name in privileges}
    for each in _READING:
        whole = each.path == "/"
        enough = (
            has_privilege(permissions, each.path, each.privilege)
            if whole
            else each.privilege in granted
        )
        if not enough:
            raise _missing(each)
    if pools_without_privilege(permissions, settings):
        raise _missing(_POOLS)


def _missing(needed: Requirement) -> MissingPrivilegeError:
    return MissingPrivilegeError(
        f"privilege {needed.privilege} on {needed.path} missing, needed to "
        f"{needed.purpose}; run opendrs check --online for the command that grants it",
        needed.path,
        needed.privilege,
    )


def grant_path(permissions: Permissions, path: str) -> str:
    """Return the path on which a role is to be added for a privilege on *path*.

    Roles on a path replace those that are inherited. They are therefore added where
    the current ones are: on the root if *path* inherits from it. A single guest or
    storage is listed only if it has roles of its own.
    """
    if path not in permissions and path.count("/") > 1:
        path = path.rpartition("/")[0]
    own = permissions.get(path, {}).keys()
    return "/" if own == permissions.get("/", {}).keys() else path


def grant_commands(
    privilege: str, path: str, user: str, token_id: str | None, *, role_exists: bool
) -> str:
    """Return the commands that grant *privilege* on *path*, to be run on a node.

    Args:
        privilege: The missing privilege.
        path: The path to add a role on.
        user: The user `NAME@REALM`.
        token_id: The id of its token if this has privileges of its own; None if the
            token has those of the user, or there is no token.
        role_exists: Whether the role of the commands exists.
    """
    role = f"pveum role add {ROLE} --privs {privilege}"
    if role_exists:
        role = f"pveum role modify {ROLE} --append 1 --privs {privilege}"
    grantees = f"--users {shlex.quote(user)}"
    if token_id is not None:
        grantees += f" --tokens {shlex.quote(f'{user}!{token_id}')}"
    return f"{role} && pveum acl modify {path} --roles {ROLE} {grantees}"
