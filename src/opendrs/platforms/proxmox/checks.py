"""Checks of a Proxmox VE cluster: hosts, version, and permissions path by path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from opendrs.config.platform_kinds import OnlineCheck
from opendrs.errors import OpenDRSError, PlatformError
from opendrs.model import StorageGroup, format_count, format_list
from opendrs.platforms.proxmox.client import ProxmoxClient, api_path
from opendrs.platforms.proxmox.cluster_view import guest_rows, is_quorate
from opendrs.platforms.proxmox.login import Login, read_login
from opendrs.platforms.proxmox.permissions import (
    ROLE,
    Permissions,
    Requirement,
    disk_move_requirements,
    grant_commands,
    grant_path,
    has_privilege,
    pools_without_privilege,
    reading_storage,
    requirements,
)
from opendrs.platforms.proxmox.queries import Queries
from opendrs.platforms.proxmox.responses import ClusterRow, ResourceRow
from opendrs.platforms.proxmox.settings import ProxmoxSettings

_VERSIONS = ("8", "9")


def check_online(name: str, settings: ProxmoxSettings) -> Iterator[OnlineCheck]:
    """Yield the results of all checks of the cluster *name*.

    Raises:
        OpenDRSError: A secret cannot be read, or no host answers.
    """
    login = read_login(f"platform {name}", settings)
    for host in settings.hosts:
        yield _check_host(host, replace(settings, hosts=(host,)), login)
    client = ProxmoxClient(settings, login)
    try:
        queries = Queries(client, settings)
        yield _check_version(queries.version())
        permissions = queries.permissions()
        yield from _check_permissions(
            queries, login, permissions, settings, requirements(settings)
        )
        if has_privilege(permissions, "/", "Sys.Audit"):
            members = queries.cluster_status()
            quorate = is_quorate(members)
            detail = "quorate" if quorate else "no quorum: guests cannot migrate"
            yield OnlineCheck("quorum", ok=quorate, detail=detail)
            yield from _check_node_names(members, settings)
            yield _check_rebalancing(queries)
        if settings.pools and not pools_without_privilege(permissions, settings):
            yield from _check_pools(queries.resources(), settings)
    finally:
        client.close()


def check_disk_moves(
    name: str, settings: ProxmoxSettings, groups: Sequence[StorageGroup]
) -> Iterator[OnlineCheck]:
    """Yield the privileges to move disks among the storages of *groups*.

    A storage that can be read and does not exist belongs to another cluster.

    Raises:
        OpenDRSError: A secret cannot be read, or no host answers.
    """
    login = read_login(f"platform {name}", settings)
    client = ProxmoxClient(settings, login)
    try:
        queries = Queries(client, settings)
        permissions = queries.permissions()
        present = {row.storage for row in queries.resources() if row.type == "storage"}
        names = sorted({each for group in groups for each in group.storages})
        unread = [
            needed
            for needed in map(reading_storage, names)
            if not has_privilege(permissions, needed.path, needed.privilege)
        ]
        usable = [each for each in names if each in present]
        moving = disk_move_requirements(usable) if usable else ()
        # The remedies of the first ones may create the role; they are not repeated.
        first = requirements(settings)
        needed = (*first, *unread, *moving)
        checks = _check_permissions(queries, login, permissions, settings, needed)
        yield from islice(checks, len(first), None)
    finally:
        client.close()


def _check_host(host: str, settings: ProxmoxSettings, login: Login) -> OnlineCheck:
    client = ProxmoxClient(settings, login)
    try:
        version = Queries(client, settings).version()
    except OpenDRSError as error:
        return OnlineCheck(f"host {host}", ok=False, detail=str(error))
    finally:
        client.close()
    return OnlineCheck(f"host {host}", ok=True, detail=f"Proxmox VE {version}")


def _check_version(version: str) -> OnlineCheck:
    known = version.partition(".")[0] in _VERSIONS
    detail = version if known else f"{version}; expected 8 or 9"
    return OnlineCheck("version", ok=known, detail=detail)


def _check_permissions(
    queries: Queries,
    login: Login,
    permissions: Permissions,
    settings: ProxmoxSettings,
    needed: Iterable[Requirement],
) -> Iterator[OnlineCheck]:
    role_exists: bool | None = None
    separate_token = login.token_id
    for each in needed:
        subject = f"{each.privilege} on {each.path}"
        if has_privilege(permissions, each.path, each.privilege):
            yield OnlineCheck(subject, ok=True, detail=f"to {each.purpose}")
            continue
        if parts := _granted_parts(permissions, each, settings):
            yield OnlineCheck(subject, ok=True, detail=f"only on {', '.join(parts)}")
            continue
        if role_exists is None:
            role_exists = _role_exists(queries)
            separate_token = _separate_token(queries, login)
        remedy = grant_commands(
            each.privilege,
            grant_path(permissions, each.path),
            login.user,
            separate_token,
            role_exists=role_exists,
        )
        role_exists = True
        yield OnlineCheck(
            subject,
            ok=False,
            detail=f"missing, needed to {each.purpose}",
            remedy=remedy,
        )


def _granted_parts(
    permissions: Permissions, needed: Requirement, settings: ProxmoxSettings
) -> list[str]:
    """Return the guests and pools that the privilege is granted on, if they suffice."""
    if needed.path == "/pool" and not pools_without_privilege(permissions, settings):
        return sorted(f"/pool/{name}" for name in settings.pools)
    if needed.path != "/vms":
        return []
    return sorted(
        path
        for path, privileges in permissions.items()
        if path.startswith(("/vms/", "/pool/")) and needed.privilege in privileges
    )


def _role_exists(queries: Queries) -> bool:
    rows = queries.get("/access/roles")
    return isinstance(rows, list) and any(
        isinstance(row, dict) and row.get("roleid") == ROLE for row in rows
    )


def _separate_token(queries: Queries, login: Login) -> str | None:
    """Return the id of the token if it has privileges of its own."""
    if login.token_id is None:
        return None
    try:
        path = api_path("access", "users", login.user, "token", login.token_id)
        row = queries.get(path)
    except PlatformError:
        return login.token_id
    is_separate = not isinstance(row, dict) or str(row.get("privsep", 1)) != "0"
    return login.token_id if is_separate else None


def _check_node_names(
    members: Iterable[ClusterRow], settings: ProxmoxSettings
) -> Iterator[OnlineCheck]:
    """Yield a failed check for each setting that names nodes the cluster lacks."""
    nodes = {row.name for row in members if row.type == "node" and row.name}
    settings_with_nodes = {
        "maintenance_nodes": settings.maintenance_nodes,
        "ignored_nodes": settings.ignored_nodes,
        **{f"pools.{pool}.nodes": each.nodes for pool, each in settings.pools.items()},
    }
    for setting, names in settings_with_nodes.items():
        if unknown := sorted({*names} - nodes):
            detail = f"not in the cluster: {format_list(unknown)}"
            remedy = f"correct {setting}; the nodes are {', '.join(sorted(nodes))}"
            yield OnlineCheck(setting, ok=False, detail=detail, remedy=remedy)


def _check_pools(
    rows: Iterable[ResourceRow], settings: ProxmoxSettings
) -> Iterator[OnlineCheck]:
    """Yield the number of guests in each pool with a rule; none may be a wrong name."""
    guests = Counter(row.pool for row in guest_rows(rows))
    for pool in sorted(settings.pools):
        detail = format_count(guests[pool], "guest")
        yield OnlineCheck(f"pool {pool}", ok=True, detail=detail)


def _check_rebalancing(queries: Queries) -> OnlineCheck:
    view = queries.ha_view()
    detail = f"{len(view.resources)} guests under HA"
    if view.rebalanced:
        detail += (
            f"; {len(view.rebalanced)} of them are left to automatic rebalancing (CRS)"
        )
    return OnlineCheck("HA", ok=True, detail=detail)
