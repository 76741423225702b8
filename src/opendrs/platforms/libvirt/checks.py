"""Checks of libvirt hosts, and the questions of `connect`.

The checks are those of connections, versions, permissions and paths between hosts.
The permission to migrate is tried by migrations that libvirt must reject: one to an
address at which nothing listens, and for each target one with an invalid scheme of the
migration address. Both are rejected before any memory is sent.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from opendrs.config import Diagnostic, KeyPath
from opendrs.config.platform_kinds import OnlineCheck, Questioner
from opendrs.config.plausibility import check_bandwidth
from opendrs.errors import PlatformError
from opendrs.model import (
    Guest,
    GuestState,
    Mobility,
    NodeId,
    Snapshot,
    format_count,
    format_list,
)
from opendrs.platforms.libvirt.client import (
    LibvirtConnection,
    RawConnection,
    error_details,
    load_library,
)
from opendrs.platforms.libvirt.errors import (
    LibvirtError,
    LibvirtPermissionError,
    is_permission_denied,
    migration_error_text,
)
from opendrs.platforms.libvirt.metadata import NAMESPACE
from opendrs.platforms.libvirt.platform import LOCAL, LibvirtPlatform
from opendrs.platforms.libvirt.remedies import (
    ABORT,
    HostLogin,
    grant_command,
    peer_remedy,
)
from opendrs.platforms.libvirt.settings import LibvirtSettings
from opendrs.transport.threads import start_thread

T = TypeVar("T")

MISSING_DISK = "opendrs-check"
INVALID_ADDRESS = "opendrs-check:///"  # a migration address with an unknown scheme
CLOSED_PORT = "qemu+tcp://127.0.0.1:1/system"  # nothing listens there
OLDEST = 3_003_000  # libvirt 3.3.0 names the operation of a job
MAX_TARGETS = 10  # targets that are tried for each source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    """A node that is checked.

    Attributes:
        connection: The connection to it.
        login: Account with which this machine reaches it.
        peer: Account with which other nodes reach it.
    """

    connection: LibvirtConnection
    login: HostLogin
    peer: HostLogin

    @property
    def node(self) -> NodeId:
        """Return the name of the node."""
        return self.connection.node


def check_online(name: str, settings: LibvirtSettings) -> Iterator[OnlineCheck]:
    """Yield the results of all checks of the cluster *name*.

    Raises:
        OpenDRSError: libvirt is not installed, or the cluster cannot be observed.
    """
    load_library()
    hosts = _hosts(settings)
    connections = _in_parallel(_check_connection, hosts)
    yield from connections
    reachable = [
        host for host, check in zip(hosts, connections, strict=True) if check.ok
    ]
    if any(check.remedy for check in connections) or not reachable:
        return  # an observation would fail with the same error
    snapshot = LibvirtPlatform(name, settings).observe()
    check = partial(
        _check_migrations, hosts=reachable, snapshot=snapshot, settings=settings
    )
    for checks in _in_parallel(check, reachable):
        yield from checks
    yield _check_mobility(snapshot)
    yield from _check_metadata(snapshot, hosts)


def _hosts(settings: LibvirtSettings) -> list[_Host]:
    user = _local_user()
    return [
        _Host(
            connection=LibvirtConnection(NodeId(node), uri, settings.timeout),
            login=HostLogin.of(uri, user),
            # The connection is opened by libvirtd, which runs as root.
            peer=HostLogin.of(settings.peer_uri(node), "root"),
        )
        for node, uri in settings.nodes.items()
    ]


def _local_user() -> str:
    user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _in_parallel(check: Callable[[_Host], T], hosts: Sequence[_Host]) -> list[T]:
    futures = [start_thread(partial(check, host)) for host in hosts]
    return [future.result() for future in futures]


def _check_connection(host: _Host) -> OnlineCheck:
    subject = f"connection to {host.node}"
    try:
        library, hypervisor = host.connection.query(_read_versions)
    except LibvirtPermissionError as error:
        remedy = grant_command(host.node, host.login, error.cause)
        return OnlineCheck(subject, ok=False, detail=str(error), remedy=remedy)
    except PlatformError as error:
        return OnlineCheck(subject, ok=False, detail=str(error))
    detail = f"libvirt {_version_text(library)}, {hypervisor}"
    if library < OLDEST:
        detail += f"; expected libvirt {_version_text(OLDEST)} or later"
    return OnlineCheck(subject, ok=library >= OLDEST, detail=detail)


def _read_versions(connection: RawConnection) -> tuple[int, str]:
    """Return the version of libvirt, and the hypervisor with its version."""
    hypervisor = str(connection.getType())
    with suppress(load_library().libvirtError):
        hypervisor += f" {_version_text(connection.getVersion())}"
    return int(connection.getLibVersion()), hypervisor


def _version_text(number: int) -> str:
    """Return a version of libvirt's form, 1,000,000 times major and so on."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def _check_migrations(
    host: _Host,
    *,
    hosts: Sequence[_Host],
    snapshot: Snapshot,
    settings: LibvirtSettings,
) -> list[OnlineCheck]:
    """Return whether this machine may migrate from *host*, and it reaches the others.

    Each of many hosts tries the next ones, so that all are tried as targets.
    """
    subject = f"migration from {host.node}"
    guest = next((g for g in _sorted(snapshot) if _is_candidate(g, host.node)), None)
    try:
        if error := _denied_call(host, guest):
            remedy = grant_command(host.node, host.login, error)
            return [OnlineCheck(subject, ok=False, detail=error.message, remedy=remedy)]
        index = hosts.index(host)
        targets = [*hosts[index + 1 :], *hosts[:index]][:MAX_TARGETS]
        if guest is None or not targets:
            missing = "other node" if guest else "guest there that can migrate"
            return [OnlineCheck(subject, ok=True, detail=f"not tried: no {missing}")]
        paths = list(_check_paths(host, targets, guest.id, settings))
        aborts = list(_check_abort(host, guest.id))
    except PlatformError as error:
        return [OnlineCheck(subject, ok=False, detail=str(error))]
    names = format_list([target.node for target in targets])
    failed = [path for path in paths if not path.ok]
    allowed = OnlineCheck(subject, ok=True, detail=f"allowed; reaches {names}")
    return [*(failed or [allowed]), *aborts]


def _sorted(snapshot: Snapshot) -> Iterator[Guest]:
    return iter(sorted(snapshot.guests.values(), key=lambda guest: guest.id))


def _is_candidate(guest: Guest, node: NodeId) -> bool:
    return (
        guest.node == node
        and guest.state is GuestState.RUNNING
        and guest.mobility is Mobility.LIVE
        and guest.migrating_to is None
    )


def _denied_call(host: _Host, guest: Guest | None) -> LibvirtError | None:
    """Return the error of a call that this machine may not make; None without one."""
    calls: list[Callable[[RawConnection], LibvirtError | None]] = [_try_change]
    if guest is not None:
        calls += [
            partial(_try_migration, guest=guest.id, uri=CLOSED_PORT, unsafe=False)
        ]
    for call in calls:
        error = host.connection.query(call)
        if error is not None and is_permission_denied(error):
            return error
    return None


def _check_paths(
    source: _Host, targets: Iterable[_Host], guest: str, settings: LibvirtSettings
) -> Iterator[OnlineCheck]:
    """Yield whether *source* reaches each target; stop at one that does not respond.

    Until the source gives up, the guest is locked, and no other target can be tried.
    """
    for target in targets:
        try:
            yield _check_path(source, target, guest, settings)
        except PlatformError as error:
            subject = f"migration from {source.node} to {target.node}"
            yield OnlineCheck(subject, ok=False, detail=str(error))
            return


def _check_path(
    source: _Host, target: _Host, guest: str, settings: LibvirtSettings
) -> OnlineCheck:
    """Return whether *source* can reach *target* and may migrate to it."""
    subject = f"migration from {source.node} to {target.node}"
    if LOCAL in target.peer.uri:
        return OnlineCheck(
            subject,
            ok=False,
            detail=f"the URI of {target.node} is local, so other nodes cannot reach it",
            remedy=f"set migration_uris.{target.node} to a URI with a host name",
        )
    error = source.connection.query(
        partial(
            _try_migration,
            guest=guest,
            uri=target.peer.uri,
            unsafe=settings.unsafe,
        )
    )
    if error is None or INVALID_ADDRESS in error.message:
        return OnlineCheck(subject, ok=True, detail="reached")
    return OnlineCheck(
        subject,
        ok=False,
        detail=migration_error_text(error, guest, source.node, target.node),
        remedy=peer_remedy(source.login, target.peer, error),
    )


def _check_abort(host: _Host, guest: str) -> Iterator[OnlineCheck]:
    """Yield that migrations cannot be aborted, which a careful operator may choose."""
    error = host.connection.query(partial(_try_abort, guest=guest))
    if error is not None and is_permission_denied(error):
        detail = f"not allowed; {ABORT} allows it, and to attach devices of the host"
        yield OnlineCheck(f"abort on {host.node}", ok=True, detail=detail)


def _try_migration(
    connection: RawConnection, *, guest: str, uri: str, unsafe: bool
) -> LibvirtError | None:
    """Return the error of a migration to *uri* with an invalid migration address."""
    library = load_library()
    flags = library.VIR_MIGRATE_LIVE | library.VIR_MIGRATE_PEER2PEER
    if unsafe:
        flags |= library.VIR_MIGRATE_UNSAFE
    parameters = {library.VIR_MIGRATE_PARAM_URI: INVALID_ADDRESS}
    return _error_of(
        lambda: connection.lookupByName(guest).migrateToURI3(uri, parameters, flags)
    )


def _try_change(connection: RawConnection) -> LibvirtError | None:
    """Return the error of a change that is invalid, and denied if all changes are."""
    return _error_of(lambda: connection.createXML("", 0))


def _try_abort(connection: RawConnection, *, guest: str) -> LibvirtError | None:
    """Return the error of a call that needs the permission to abort a migration."""
    return _error_of(lambda: connection.lookupByName(guest).blockJobAbort(MISSING_DISK))


def _error_of(call: Callable[[], object]) -> LibvirtError | None:
    try:
        call()
    except load_library().libvirtError as error:
        return error_details(error)
    return None


def _check_mobility(snapshot: Snapshot) -> OnlineCheck:
    """Return how many guests can migrate, and what prevents the others."""
    guests = list(_sorted(snapshot))
    fixed = [guest for guest in guests if guest.mobility is Mobility.NONE]
    count = len(guests) - len(fixed)
    detail = f"{count} of {format_count(len(guests), 'guest')} can migrate"
    if not fixed:
        return OnlineCheck("live migration", ok=True, detail=detail)
    reason = fixed[0].mobility_detail or ""
    detail += f"; {fixed[0].id}: {reason}"
    remedy = ""
    if "is not on shared storage" in reason:
        remedy = "set shared_storage to the directories that all nodes share"
    return OnlineCheck("live migration", ok=count > 0, detail=detail, remedy=remedy)


def _check_metadata(
    snapshot: Snapshot, hosts: Sequence[_Host]
) -> Iterator[OnlineCheck]:
    """Yield a failed check for each guest with invalid metadata."""
    uris = {host.node: host.login.uri for host in hosts}
    for guest in _sorted(snapshot):
        detail = guest.mobility_detail or ""
        if not detail.startswith("metadata "):
            continue
        uri = shlex.quote(uris[guest.node])
        name = shlex.quote(guest.id.removesuffix(f"@{guest.node}"))
        yield OnlineCheck(
            f"metadata of {guest.id}",
            ok=False,
            detail=detail,
            remedy=f"virsh -c {uri} metadata {name} --uri {NAMESPACE} --remove",
        )


def ask(questioner: Questioner) -> dict[str, object]:
    """Return the table of a cluster from the answers of the operator."""
    nodes: dict[str, str] = {}
    peers: dict[str, str] = {}
    while name := questioner.text("Name of a node (empty: no more)"):
        nodes[name], peers[name] = _ask_uris(questioner, name)
    table: dict[str, object] = {"nodes": nodes}
    if any(peers.values()):
        table["migration_uris"] = {node: uri for node, uri in peers.items() if uri}
    shared = questioner.text("Directory of disks that all nodes share (empty: none)")
    if shared:
        table["shared_storage"] = [shared]
    return table


def _ask_uris(questioner: Questioner, name: str) -> tuple[str, str]:
    """Return the URIs of a node for this machine, and for the other nodes.

    The second one is empty if it is the same.
    """
    uri = questioner.text(f"URI of {name}", default=f"qemu+ssh://root@{name}/system")
    # A local URI leads to another host when another node uses it.
    same = "required" if LOCAL in uri else "empty: the same"
    return uri, questioner.text(f"URI at which other nodes reach {name} ({same})")


def check_settings(at: KeyPath, settings: LibvirtSettings) -> Iterator[Diagnostic]:
    """Yield the values that are plausible for no cluster."""
    if settings.bandwidth is not None:
        yield from check_bandwidth((*at, "bandwidth"), settings.bandwidth)
