"""Checks that connect to a cluster, and the questions of `connect`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from opendrs.config.platform_kinds import OnlineCheck, Questioner
from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import (
    Guest,
    GuestKind,
    Mobility,
    Snapshot,
    format_count,
    format_list,
    local_disks,
)
from opendrs.platforms.incus import queries
from opendrs.platforms.incus.client import IncusClient
from opendrs.platforms.incus.cluster_responses import INTERVAL, is_interval_on
from opendrs.platforms.incus.mobility import project_blocker
from opendrs.platforms.incus.observation import UNREACHABLE, require_cluster
from opendrs.platforms.incus.reading import FROZEN_RESOURCES
from opendrs.platforms.incus.responses import Member, Project, ServerInfo
from opendrs.platforms.incus.settings import (
    DEFAULT_SOCKET,
    IncusSettings,
    RebalancerState,
)
from opendrs.platforms.incus.tls import fetch_certificate
from opendrs.transport.certificates import certificate_fingerprint

# API extensions without which the adapter cannot work.
EXTENSIONS = (
    "clustering",
    "cluster_member_state",
    "instance_all_projects",
    "operation_wait",
    "migration_stateful",
    "migration_vm_live",
    "metrics",
)
_MAX_LISTED = 5
_CONNECT_TIME = 10.0  # seconds


def check_online(_: str, settings: IncusSettings) -> Iterator[OnlineCheck]:
    """Yield the results of all checks of a cluster.

    Raises:
        OpenDRSError: The cluster does not respond, or a file cannot be read.
    """
    client = IncusClient(settings)
    server = queries.read_server(client)
    if server.environment is None:
        yield _untrusted(settings)
        return
    where = server.environment.server_name
    yield OnlineCheck(
        "connection", ok=True, detail=f"{where} responds, and trusts the certificate"
    )
    require_cluster(server)
    yield _version(server)
    projects = queries.read_projects(client)
    yield from _projects(server, projects, settings)
    yield _rebalancer(server, settings)
    members = queries.read_members(client)
    yield from _members(client, members, server, projects, settings)


def _untrusted(settings: IncusSettings) -> OnlineCheck:
    file = settings.certificate or Path("opendrs.crt")
    projects = ",".join(settings.projects or ("default",))
    command = (
        "incus config trust add-certificate --restricted "
        f"--projects={shlex.quote(projects)} {shlex.quote(str(file))}"
    )
    detail = "the cluster does not trust the certificate"
    return OnlineCheck("trust", ok=False, detail=detail, remedy=command)


def _version(server: ServerInfo) -> OnlineCheck:
    assert server.environment is not None  # noqa: S101 - checked by the caller
    version = server.environment.server_version
    if missing := [each for each in EXTENSIONS if each not in server.api_extensions]:
        return OnlineCheck(
            "version",
            ok=False,
            detail=f"{version}: without {format_list(missing)}",
            remedy="update Incus to 6.0 or later",
        )
    detail = version
    if version in FROZEN_RESOURCES:
        detail += ": memory in use includes the page cache (6.0.6 corrects it)"
    return OnlineCheck("version", ok=True, detail=detail)


def _projects(
    server: ServerInfo, projects: Mapping[str, Project], settings: IncusSettings
) -> Iterator[OnlineCheck]:
    """Yield whether each project can be read, and its instances moved."""
    if missing := [name for name in settings.projects if name not in projects]:
        allowed = json.dumps({"projects": sorted({*projects, *settings.projects})})
        path = f"/1.0/certificates/{server.auth_user_name}"
        yield OnlineCheck(
            "projects",
            ok=False,
            detail=f"not visible to the certificate: {format_list(missing)}",
            remedy=f"incus query -X PATCH -d {shlex.quote(allowed)} {path}",
        )
    managed = [each for each in projects.values() if settings.manages(each.name)]
    if managed and not missing:
        names = format_list([each.name for each in managed], _MAX_LISTED)
        yield OnlineCheck("projects", ok=True, detail=names)
    for project in managed:
        if blocker := project_blocker(project, restricted=not server.config):
            target = shlex.quote(project.name)
            yield OnlineCheck(
                f"moves in {project.name}",
                ok=False,
                detail=blocker,
                remedy=f"incus project set {target} restricted.cluster.target=allow",
            )


def _rebalancer(server: ServerInfo, settings: IncusSettings) -> OnlineCheck:
    subject, setting = "rebalancer of Incus", settings.rebalancer
    turn_off = f"incus config set {INTERVAL}=0"
    if not server.config:
        if setting is not RebalancerState.AUTO:
            detail = f"{setting}, as configured"
            return OnlineCheck(subject, ok=True, detail=detail)
        return OnlineCheck(
            subject,
            ok=False,
            detail=f"a restricted certificate cannot read {INTERVAL}",
            remedy=f'{turn_off}, and set rebalancer = "off"',
        )
    is_on = is_interval_on(server.config)
    if is_on and setting is RebalancerState.OFF:
        return OnlineCheck(
            subject, ok=False, detail="on, but configured as off", remedy=turn_off
        )
    if is_on or setting is RebalancerState.ON:
        detail = "on: the virtual machines it can move are left to it"
        return OnlineCheck(subject, ok=True, detail=detail)
    return OnlineCheck(subject, ok=True, detail="off")


def _members(
    client: IncusClient,
    members: tuple[Member, ...],
    server: ServerInfo,
    projects: Mapping[str, Project],
    settings: IncusSettings,
) -> Iterator[OnlineCheck]:
    """Yield whether the figures of the members can be read."""
    names = [each.server_name for each in members if each.status not in UNREACHABLE]
    states, failed = queries.query_all(
        lambda member: queries.read_member_state(client, member),
        names,
        settings.max_requests,
    )
    for member, error in failed.items():
        yield OnlineCheck(f"state of {member}", ok=False, detail=str(error))
    if states:
        detail = format_count(len(states), "member")
        yield OnlineCheck("state of members", ok=True, detail=detail)
    managed = [each for each in projects if settings.manages(each)]
    projects_read = ("",) if server.config else managed
    try:
        for member in list(states)[:1]:
            queries.read_metrics(client, member, projects_read)
    except PlatformUnavailableError as error:
        yield OnlineCheck("metrics", ok=False, detail=str(error))
    except PlatformError as error:
        detail = f"the use of instances is unknown: {error}"
        yield OnlineCheck("metrics", ok=False, detail=detail)
    else:
        yield OnlineCheck("metrics", ok=True, detail="CPU and memory of instances")


def check_snapshot(snapshot: Snapshot) -> Iterator[OnlineCheck]:
    """Yield how many virtual machines can migrate, and what others need.

    The limits, which are not known here, decide about those with local disks.
    """
    machines = [g for g in snapshot.guests.values() if g.kind is GuestKind.VM]
    fixed = [guest for guest in machines if guest.mobility is Mobility.NONE]
    count = len(machines) - len(fixed)
    detail = f"{count} of {format_count(len(machines), 'virtual machine')} can migrate"
    if copied := sum(_is_copied(guest, snapshot) for guest in machines):
        detail += f", {copied} only if limits.migrate_local_disks allows copied disks"
    if not fixed or count:
        yield OnlineCheck("live migration", ok=True, detail=detail)
        return
    first = fixed[0]
    yield OnlineCheck(
        "live migration",
        ok=False,
        detail=f"{detail}; {first.id}: {first.mobility_detail}",
        remedy=_mobility_remedy(first.id, first.mobility_detail or ""),
    )


def _mobility_remedy(guest: str, detail: str) -> str:
    project, separator, name = guest.partition("/")
    option = f"--project {shlex.quote(project)} " if separator else ""
    quoted = shlex.quote(name or project)
    if "migration.stateful" in detail:
        return (
            f"incus stop {option}{quoted}; incus config set {option}{quoted} "
            f"migration.stateful=true; incus start {option}{quoted}"
        )
    return ""


def _is_copied(guest: Guest, snapshot: Snapshot) -> bool:
    storages = snapshot.nodes[guest.node].storages
    is_mobile = guest.mobility is not Mobility.NONE
    return is_mobile and bool(local_disks(guest.disks, storages))


def ask(questioner: Questioner) -> dict[str, object]:
    """Return the table of a platform from the answers of the operator."""
    where = questioner.text(
        "URL of a member, or unix socket on this machine", default=str(DEFAULT_SOCKET)
    )
    if where.startswith("/"):
        table: dict[str, object] = {"socket": where}
    else:
        certificate = fetch_certificate(where, _CONNECT_TIME)
        found = certificate_fingerprint(certificate).lower()
        expected = questioner.text(
            "Fingerprint in incus info, certificate_fingerprint", default=found
        )
        table = {
            "urls": [where],
            "fingerprint": expected,
            "certificate": questioner.text("Client certificate", "opendrs.crt"),
            "key": questioner.text("Its key", "opendrs.key"),
        }
    projects = questioner.text("Projects, separated by commas", default="default")
    table["projects"] = [name.strip() for name in projects.split(",") if name.strip()]
    table["rebalancer"] = questioner.text(
        f"Rebalancer of Incus ({INTERVAL} above 0): auto, on or off",
        default="auto" if "socket" in table else "off",
    )
    return table
