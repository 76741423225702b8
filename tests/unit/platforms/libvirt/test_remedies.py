"""Commands that grant a missing permission, by the error of libvirt.

The messages are those of libvirt 9.0 and OpenSSH 9.2.
"""

from __future__ import annotations

import pytest

from opendrs.platforms.libvirt.errors import ErrorCode, LibvirtError
from opendrs.platforms.libvirt.remedies import (
    HostLogin,
    grant_command,
    peer_remedy,
    polkit_rule,
)

UNIX = HostLogin.of("qemu:///system", "drs")
SSH = HostLogin.of("qemu+ssh://drs@alpha/system", "me")
TLS = HostLogin.of("qemu://alpha/system", "drs")
PEER = HostLogin.of("qemu+ssh://beta/system", "root")
THEN = "then write the password to ~/.config/libvirt/auth.conf"
AS_ROOT = (
    "let the nodes reach each other as root: set migration_uris to URIs such as "
    '"qemu+ssh://root@beta/system"'
)
DENIED = LibvirtError(
    ErrorCode.SYSTEM_ERROR,
    7,
    13,
    "Failed to connect socket to '/var/run/libvirt/libvirt-sock': Permission denied",
)
POLKIT = LibvirtError(
    ErrorCode.AUTH_UNAVAILABLE,
    7,
    -1,
    "authentication unavailable: no polkit agent available to authenticate action "
    "'org.libvirt.unix.manage'",
)
ACCESS = LibvirtError(
    ErrorCode.ACCESS_DENIED, 55, -1, "access denied: 'QEMU' denied access"
)
READ_ONLY = LibvirtError(
    ErrorCode.OPERATION_DENIED,
    20,
    -1,
    "operation forbidden: read only access prevents virDomainMigratePerform3Params",
)
SASL = LibvirtError(
    ErrorCode.AUTH_CANCELLED, 13, -1, "no SASL credentials for it in auth.conf"
)
PASSWORD = LibvirtError(
    ErrorCode.AUTH_FAILED, 7, -1, "authentication failed: authentication failed"
)
HOST_KEY = LibvirtError(
    ErrorCode.SYSTEM_ERROR,
    7,
    104,
    "Cannot recv data: Host key verification failed.: Connection reset by peer",
)
SSH_KEY = LibvirtError(
    ErrorCode.SYSTEM_ERROR,
    7,
    104,
    "Cannot recv data: drs@alpha: Permission denied (publickey,password).: "
    "Connection reset by peer",
)


@pytest.mark.parametrize(
    ("uri", "login"),
    [
        ("qemu:///system?socket=/run/x", ("me", "", "unix")),
        ("qemu+ssh://drs@alpha:2222/system", ("drs", "alpha", "ssh")),
        ("qemu+ssh://alpha/system", ("me", "alpha", "ssh")),
        ("qemu://alpha/system", ("me", "alpha", "tls")),
        ("qemu+tcp://alpha/system", ("me", "alpha", "tcp")),
    ],
)
def test_login_of_a_uri(uri: str, login: tuple[str, str, str]) -> None:
    found = HostLogin.of(uri, "me")

    assert (found.user, found.host, found.transport) == login


@pytest.mark.parametrize(
    ("login", "error", "command"),
    [
        (UNIX, DENIED, "usermod --append --groups libvirt drs"),
        (UNIX, POLKIT, "usermod --append --groups libvirt drs"),
        (SSH, DENIED, "ssh -t root@alpha 'usermod --append --groups libvirt drs'"),
        (SSH, HOST_KEY, "ssh drs@alpha true"),
        (
            SSH,
            SSH_KEY,
            (
                "ssh-copy-id drs@alpha; if drs has no password: as root on alpha, "
                "append your public key to ~drs/.ssh/authorized_keys"
            ),
        ),
        (
            UNIX,
            SASL,
            f"saslpasswd2 -a libvirt -c drs, {THEN}",
        ),
        (
            TLS,
            PASSWORD,
            f"ssh -t root@alpha 'saslpasswd2 -a libvirt -c drs', {THEN}",
        ),
        (
            HostLogin.of("qemu:///system?socket=/run/libvirt/libvirt-sock-ro", "drs"),
            READ_ONLY,
            'set nodes.h1 = "qemu:///system?socket=/run/libvirt/libvirt-sock"',
        ),
        (
            UNIX,
            ACCESS,
            f"echo '{polkit_rule('drs')}' > /etc/polkit-1/rules.d/60-opendrs.rules",
        ),
    ],
)
def test_command_that_grants_what_is_missing(
    login: HostLogin, error: LibvirtError, command: str
) -> None:
    assert grant_command("h1", login, error) == command


def test_name_of_a_user_does_not_end_the_text_of_the_rule() -> None:
    assert r'subject.user == "a\"b" &&' in polkit_rule('a"b')


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (HOST_KEY, "ssh -t root@alpha 'ssh-copy-id root@beta'"),
        (SSH_KEY, "ssh -t root@alpha 'ssh-copy-id root@beta'"),
        (
            LibvirtError(ErrorCode.MIGRATE_UNSAFE, 10, -1, "Unsafe migration: ..."),
            "set unsafe = true if the disks of all guests are on shared storage",
        ),
        (
            ACCESS,
            AS_ROOT,
        ),
        (LibvirtError(ErrorCode.SYSTEM_ERROR, 7, 113, "No route to host"), ""),
    ],
)
def test_remedy_for_the_path_between_two_nodes(
    error: LibvirtError, remedy: str
) -> None:
    assert peer_remedy(SSH, PEER, error) == remedy
