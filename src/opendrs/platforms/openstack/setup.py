"""Checks that connect to a cloud, and the questions of `connect`."""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from opendrs.config.platform_kinds import (
    OnlineCheck,
    Questioner,
)
from opendrs.errors import PermissionDeniedError, PlatformError
from opendrs.platforms.openstack.client import (
    Identity,
    NotFoundError,
    OpenStackClient,
)
from opendrs.platforms.openstack.connection import MICROVERSIONS
from opendrs.platforms.openstack.responses import Server, parse_all
from opendrs.platforms.openstack.settings import BlockMigration, OpenStackSettings

ROLE = "admin"  # has all of these permissions by the default policies of Nova
MISSING_HOST = "opendrs-check-this-host-does-not-exist"
_POLICY = re.compile(r"[Pp]olicy doesn't allow (\S+)")
_NOVA = "os_compute_api:"
# Without it Nova hides, without an error, servers and server groups of other projects.
_ADMINISTRATOR = "context_is_admin"
_SAMPLE = 100  # servers, among which one of another project is looked for
_NO_PROVIDER = "/resource_providers/00000000-0000-0000-0000-000000000000"
# Parts of a resource provider, and the policies that allow to read them.
_PLACEMENT_PARTS = {
    "inventories": "inventories:list",
    "usages": "usages",
    "traits": "traits:list",
}


@dataclass(frozen=True, slots=True)
class Permission:
    """Request that OpenDRS needs to be allowed.

    Attributes:
        subject: The request, for the operator.
        policy: Rule of the policy that allows it.
        call: Sends the request; raises `PermissionDeniedError` if it is not allowed.
    """

    subject: str
    policy: str
    call: Callable[[], object]


def check_online(name: str, settings: OpenStackSettings) -> Iterator[OnlineCheck]:
    """Yield the results of all checks of a cloud.

    Raises:
        OpenDRSError: The cloud does not respond, or clouds.yaml does not have it.
    """
    client = OpenStackClient(name, settings)
    version = client.microversion
    identity = client.identity()
    yield OnlineCheck("login", ok=True, detail=identity.text)
    yield _encryption(client)
    detail = f"microversion {version}"
    if version != ".".join(map(str, MICROVERSIONS[-1])):
        detail += ": the zones that servers were created in by request are unknown"
    yield OnlineCheck("Nova", ok=True, detail=detail)
    detail = f"Nova measures no load; configure [platform.{name}.load]"
    yield OnlineCheck("load", ok=True, detail=detail)
    checks = [
        _permission(each, identity)
        for each in (*_reads(client), *_changes(client, settings))
    ]
    yield from checks
    if all(check.ok for check in checks):
        yield from _hidden_hosts(client, identity)


def _encryption(client: OpenStackClient) -> OnlineCheck:
    """Return whether the token is sent encrypted, to a verified server."""
    subject = "encryption"
    if not client.is_verified:
        return OnlineCheck(
            subject,
            ok=False,
            detail="verify is false: certificates are not verified",
            remedy="set cacert in clouds.yaml to the certificate of the issuer",
        )
    plain = sorted(url for url in client.endpoints() if _is_exposed(url))
    if plain:
        return OnlineCheck(
            subject,
            ok=False,
            detail=f"not encrypted: {plain[0]}",
            remedy="openstack endpoint set --url https://... ENDPOINT",
        )
    return OnlineCheck(subject, ok=True, detail="certificates are verified")


def _is_exposed(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in (None, "localhost"):
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


def _reads(client: OpenStackClient) -> Iterator[Permission]:
    """Yield the permissions to observe the cloud."""
    yield Permission(
        "list servers of all projects",
        f"{_NOVA}servers:detail:get_all_tenants",
        lambda: client.get("/servers/detail", all_tenants=1, limit=1),
    )
    yield Permission(
        "see servers of other projects",
        _ADMINISTRATOR,
        partial(_see_other_projects, client),
    )
    yield Permission(
        "list hypervisors",
        f"{_NOVA}os-hypervisors:list-detail",
        lambda: client.get("/os-hypervisors/detail", limit=1),
    )
    yield Permission(
        "list services",
        f"{_NOVA}os-services:list",
        lambda: client.get("/os-services", binary="nova-compute"),
    )
    yield Permission(
        "list aggregates",
        f"{_NOVA}os-aggregates:index",
        lambda: client.get("/os-aggregates"),
    )
    yield Permission(
        "list server groups of all projects",
        f"{_NOVA}os-server-groups:index:all_projects",
        lambda: client.get("/os-server-groups", all_projects=True, limit=1),
    )
    yield Permission(
        "list migrations",
        f"{_NOVA}os-migrations:index",
        lambda: client.get("/os-migrations", limit=1),
    )
    yield from _placement_reads(client)


def _placement_reads(client: OpenStackClient) -> Iterator[Permission]:
    """Yield the permissions to read what Placement has, tried on no provider."""
    for part, policy in _PLACEMENT_PARTS.items():
        yield Permission(
            f"read {part} of hypervisors",
            f"placement:resource_providers:{policy}",
            partial(_rejected, partial(client.get_placement, f"{_NO_PROVIDER}/{part}")),
        )


def _see_other_projects(client: OpenStackClient) -> None:
    """Read a server of another project, if there is one.

    Raises:
        PermissionDeniedError: Nova hides it, and its server groups as well.
    """
    own = client.identity().project_id
    found = client.get("/servers/detail", all_tenants=1, limit=_SAMPLE).get("servers")
    for server in parse_all(Server, found or ()):
        if own and server.project != own:
            try:
                client.get(f"/servers/{server.id}")
            except NotFoundError as error:
                raise PermissionDeniedError(str(error)) from None
            return


def _changes(
    client: OpenStackClient, settings: OpenStackSettings
) -> Iterator[Permission]:
    """Yield the permissions to migrate, tried by requests that Nova must refuse.

    Without a server there is nothing to try them on.
    """
    try:
        found = client.get("/servers", all_tenants=1, limit=1).get("servers")
    except PermissionDeniedError:
        found = client.get("/servers", limit=1).get("servers")
    if servers := parse_all(Server, found or ()):
        path = f"/servers/{servers[0].id}"
        yield from _changes_of(client, path)
        if settings.force_complete_after is not None:
            yield Permission(
                "force a live migration to complete",
                f"{_NOVA}servers:migrations:force_complete",
                partial(
                    _rejected,
                    partial(
                        client.post,
                        f"{path}/migrations/0/action",
                        {"force_complete": None},
                    ),
                ),
            )


def _changes_of(client: OpenStackClient, path: str) -> Iterator[Permission]:
    body = {"os-migrateLive": {"host": MISSING_HOST, "block_migration": "auto"}}
    yield Permission(
        "migrate live to a host",
        f"{_NOVA}os-migrate-server:migrate_live:host",
        partial(_rejected, partial(client.post, f"{path}/action", body)),
    )
    yield Permission(
        "follow a live migration",
        f"{_NOVA}servers:migrations:index",
        partial(client.get, f"{path}/migrations"),
    )
    yield Permission(
        "abort a live migration",
        f"{_NOVA}servers:migrations:delete",
        partial(_rejected, partial(client.delete, f"{path}/migrations/0")),
    )


def _rejected(call: Callable[[], object]) -> None:
    """Send a request that cannot be carried out.

    Raises:
        PermissionDeniedError: It is not even allowed.
    """
    try:
        call()
    except PermissionDeniedError:
        raise
    except PlatformError:
        return


def _permission(permission: Permission, identity: Identity) -> OnlineCheck:
    subject = f"permission to {permission.subject}"
    try:
        permission.call()
    except PermissionDeniedError as error:
        named = _POLICY.search(str(error))
        policy = named[1] if named else permission.policy
        return OnlineCheck(
            subject,
            ok=False,
            detail=f"rejected by the policy {policy}",
            remedy=_grant(identity, policy),
        )
    except PlatformError as error:
        return OnlineCheck(subject, ok=False, detail=str(error))
    return OnlineCheck(subject, ok=True, detail=permission.policy)


def _grant(identity: Identity, policy: str) -> str:
    """Return the command that grants the role, and the policy for a role of its own."""
    user = shlex.quote(identity.user or "USER")
    project = shlex.quote(identity.project or "PROJECT")
    service = "placement"
    if not policy.startswith("placement:"):
        service, policy = "nova", _ADMINISTRATOR
    return (
        f"openstack role add --user {user} --project {project} {ROLE}; or, for a role "
        f'of its own, in /etc/{service}/policy.yaml: "{policy}": '
        '"role:admin or role:opendrs"'
    )


def _hidden_hosts(client: OpenStackClient, identity: Identity) -> Iterator[OnlineCheck]:
    """Yield a failed check if Nova does not show the hosts of servers."""
    found = client.get("/servers/detail", all_tenants=1, limit=1).get("servers")
    policy = f"{_NOVA}os-extended-server-attributes"
    servers = parse_all(Server, found or ())
    if servers and "host" not in servers[0].model_fields_set:
        yield OnlineCheck(
            "hosts of servers",
            ok=False,
            detail=f"hidden by the policy {policy}",
            remedy=_grant(identity, policy),
        )


def ask(questioner: Questioner) -> dict[str, object]:
    """Return the table of a platform from the answers of the operator."""
    cloud = questioner.text(
        "Name of the cloud in clouds.yaml", os.environ.get("OS_CLOUD", "openstack")
    )
    table: dict[str, object] = {"cloud": cloud}
    file = questioner.text(
        "File clouds.yaml (empty: that of the openstack command)",
        os.environ.get("OS_CLIENT_CONFIG_FILE", ""),
    )
    if file:
        table["clouds_file"] = file
    if region := questioner.text("Region (empty: that in clouds.yaml)"):
        table["region"] = region
    if not questioner.confirm("May disks that are not on shared storage be copied?"):
        table["block_migration"] = BlockMigration.NEVER.value
    return table
