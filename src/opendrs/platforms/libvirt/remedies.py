"""Commands that grant a missing permission on a libvirt host."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from urllib.parse import urlsplit

from opendrs.platforms.libvirt.errors import ErrorCode, LibvirtError

# Beyond reading, which libvirt allows by default to each account that may connect.
MIGRATE = "org.libvirt.api.domain.migrate"
ABORT = "org.libvirt.api.domain.write"
AUTH_FILE = "~/.config/libvirt/auth.conf"
RULES_FILE = "/etc/polkit-1/rules.d/60-opendrs.rules"
_READ_ONLY_SOCKET = "-sock-ro"
_READ_ONLY = re.compile(r"read only access", re.IGNORECASE)
_HOST_KEY = re.compile(r"host key verification failed", re.IGNORECASE)
_SSH_LOGIN = re.compile(r"permission denied \(", re.IGNORECASE)
_SASL = re.compile(r"\bSASL\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLogin:
    """Account with which a connection URI reaches a host.

    Attributes:
        uri: The URI.
        user: The account on the host.
        host: Name of the host; empty for this machine.
        transport: `ssh`, `tls`, `tcp` or `unix`.
    """

    uri: str
    user: str
    host: str
    transport: str

    @classmethod
    def of(cls, uri: str, local_user: str) -> HostLogin:
        """Return the login of *uri* when *local_user* opens it."""
        parts = urlsplit(uri)
        host = parts.hostname or ""
        default = "tls" if host else "unix"
        return cls(
            uri=uri,
            user=parts.username or local_user,
            host=host,
            transport=parts.scheme.partition("+")[2] or default,
        )

    def as_root(self, command: str) -> str:
        """Return *command* as it is run by root on the host."""
        if not self.host:
            return command
        return f"ssh -t root@{self.host} {shlex.quote(command)}"


def grant_command(node: str, login: HostLogin, error: LibvirtError) -> str:
    """Return the command, or the change of the configuration, that permits a call.

    Args:
        node: The node.
        login: The login of the connection.
        error: The error with which libvirt denied the call or the connection.
    """
    if error.code == ErrorCode.OPERATION_DENIED and _READ_ONLY.search(error.message):
        uri = login.uri.replace(_READ_ONLY_SOCKET, "-sock")
        return f'set nodes.{node} = "{uri}"'
    if error.code == ErrorCode.ACCESS_DENIED:
        return login.as_root(
            f"echo {shlex.quote(polkit_rule(login.user))} > {RULES_FILE}"
        )
    if login.transport == "ssh" and _HOST_KEY.search(error.message):
        return f"ssh {login.user}@{login.host} true"
    if login.transport == "ssh" and _SSH_LOGIN.search(error.message):
        return (
            f"ssh-copy-id {login.user}@{login.host}; if {login.user} has no password: "
            f"as root on {login.host}, append your public key to "
            f"~{login.user}/.ssh/authorized_keys"
        )
    user = shlex.quote(login.user)
    if _SASL.search(error.message) or login.transport in {"tcp", "tls"}:
        command = login.as_root(f"saslpasswd2 -a libvirt -c {user}")
        return f"{command}, then write the password to {AUTH_FILE}"
    return login.as_root(f"usermod --append --groups libvirt {user}")


def polkit_rule(user: str) -> str:
    """Return the rule of polkit that allows *user* to migrate guests."""
    condition = (
        f"subject.user == {json.dumps(user)} && action.id == {json.dumps(MIGRATE)}"
    )
    return (
        "polkit.addRule(function(action, subject) { "
        f"if ({condition}) {{ return polkit.Result.YES; }} }});"
    )


def peer_remedy(source: HostLogin, target: HostLogin, error: LibvirtError) -> str:
    """Return what lets the host of *source* reach that of *target*.

    Args:
        source: HostLogin of this machine on the source.
        target: HostLogin of the source on the target.
        error: The error of the source.
    """
    if error.code == ErrorCode.MIGRATE_UNSAFE:
        return "set unsafe = true if the disks of all guests are on shared storage"
    if error.code == ErrorCode.ACCESS_DENIED:
        return (
            "let the nodes reach each other as root: set migration_uris to URIs such "
            f'as "qemu+ssh://root@{target.host}/system"'
        )
    keys = _HOST_KEY.search(error.message), _SSH_LOGIN.search(error.message)
    if target.transport == "ssh" and any(keys):
        return source.as_root(f"ssh-copy-id {target.user}@{target.host}")
    return ""
