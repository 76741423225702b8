"""Classification of libvirt errors.

Source:
    The codes are those of `virErrorNumber` and `virErrorDomain`. The messages were
    recorded from libvirt 9.0.
"""

from __future__ import annotations

import errno as system
import re
from dataclasses import dataclass
from enum import IntEnum

from opendrs.errors import (
    ConfigurationError,
    OpenDRSError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)


class ErrorCode(IntEnum):
    """Error codes that are distinguished here (virErrorNumber)."""

    INTERNAL_ERROR = 1
    NO_SUPPORT = 3
    NO_CONNECT = 5
    INVALID_CONN = 6
    INVALID_ARG = 8
    OPERATION_DENIED = 29
    SYSTEM_ERROR = 38
    RPC = 39
    GNUTLS_ERROR = 40
    NO_DOMAIN = 42
    AUTH_FAILED = 45
    OPERATION_INVALID = 55
    CONFIG_UNSUPPORTED = 67
    OPERATION_TIMEOUT = 68
    OPERATION_ABORTED = 78
    AUTH_CANCELLED = 79
    MIGRATE_UNSAFE = 81
    OPERATION_UNSUPPORTED = 84
    SSH = 85
    ACCESS_DENIED = 88
    AUTH_UNAVAILABLE = 94
    LIBSSH = 98


class ErrorDomain(IntEnum):
    """Components of libvirt that are distinguished here (virErrorDomain)."""

    RPC = 7
    REMOTE = 13
    URI = 45


@dataclass(frozen=True, slots=True)
class LibvirtError:
    """An error that libvirt raised.

    Attributes:
        code: The error code, an `ErrorCode` or another number.
        domain: The component that failed, an `ErrorDomain` or another number.
        errno: The errno of a system error.
        message: The message of libvirt.
    """

    code: int
    domain: int
    errno: int
    message: str


class LibvirtPermissionError(PermissionDeniedError):
    """Call or connection that libvirt denied.

    Attributes:
        cause: The error of libvirt.
    """

    def __init__(self, message: str, cause: LibvirtError) -> None:
        super().__init__(message)
        self.cause = cause


_DENIED_CODES = frozenset(
    {
        ErrorCode.OPERATION_DENIED,
        ErrorCode.AUTH_FAILED,
        ErrorCode.AUTH_CANCELLED,
        ErrorCode.ACCESS_DENIED,
        ErrorCode.AUTH_UNAVAILABLE,
    }
)
_DENIED_MESSAGES = re.compile(
    r"permission denied|host key verification failed", re.IGNORECASE
)
_UNREACHABLE_CODES = frozenset(
    {
        ErrorCode.INVALID_CONN,
        ErrorCode.SYSTEM_ERROR,
        ErrorCode.RPC,
        ErrorCode.GNUTLS_ERROR,
        ErrorCode.OPERATION_TIMEOUT,
        ErrorCode.SSH,
        ErrorCode.LIBSSH,
    }
)
_UNSUPPORTED_CODES = frozenset(
    {
        ErrorCode.NO_SUPPORT,
        ErrorCode.CONFIG_UNSUPPORTED,
        ErrorCode.OPERATION_UNSUPPORTED,
    }
)


def opening_error(node: str, error: LibvirtError) -> OpenDRSError:
    """Return the error for a connection that could not be opened."""
    invalid_uri = error.code in {ErrorCode.NO_CONNECT, ErrorCode.INVALID_ARG}
    if invalid_uri or error.domain == ErrorDomain.URI:
        return ConfigurationError(
            f"nodes.{node}: URI not accepted by libvirt: {_single_line(error.message)}"
        )
    return platform_error(node, error)


def platform_error(node: str, error: LibvirtError) -> PlatformError:
    """Return the error for a call that failed on *node*."""
    message = _single_line(error.message)
    if is_permission_denied(error):
        return LibvirtPermissionError(f"{node}: permission denied: {message}", error)
    if is_unreachable(error):
        return PlatformUnavailableError(f"{node}: unreachable: {message}")
    if error.code in _UNSUPPORTED_CODES:
        return UnsupportedError(f"{node}: not supported: {message}")
    return PlatformError(f"{node}: {message}")


def is_permission_denied(error: LibvirtError) -> bool:
    """Return True if a permission is missing."""
    denied = error.errno in {system.EACCES, system.EPERM}
    return error.code in _DENIED_CODES or (
        error.code == ErrorCode.SYSTEM_ERROR
        and (denied or bool(_DENIED_MESSAGES.search(error.message)))
    )


def is_unreachable(error: LibvirtError) -> bool:
    """Return True if the host does not respond, or the connection was lost."""
    return error.code in _UNREACHABLE_CODES or (
        error.code == ErrorCode.INTERNAL_ERROR and error.domain == ErrorDomain.RPC
    )


_KNOWN_CAUSES = (
    (r"already exists with uuid", "another guest named {guest} is on {target}"),
    (r"another migration job is already", "another migration is in progress"),
    (r"same host", "{source} and {target} are the same host"),
    (r"canceled by client|cancelled by client", "aborted"),
    (
        (
            r"client socket is closed|unable to write to socket|bad file descriptor|"
            r"keepalive|broken pipe|connection reset|end of file|lost connection|"
            r"qemu unexpectedly closed the monitor"
        ),
        "the connection to {target} was lost, or {target} failed",
    ),
    (
        (
            r"unable to connect|no route to host|connection refused|timed out|"
            r"unable to resolve|name or service not known|cannot recv data"
        ),
        "{target} is unreachable from {source}",
    ),
    (
        r"unsafe migration",
        (
            "libvirt cannot verify that its disks are on shared storage; if they are, "
            "set unsafe"
        ),
    ),
    (
        r"guest cpu (doesn't|does not) match|cpu is not compatible|missing features",
        "the CPU of {target} lacks features that it uses",
    ),
    (r"snapshot", "libvirt cannot migrate a guest with snapshots"),
    (
        r"cannot allocate memory|cannot set up guest memory",
        "{target} has too little memory",
    ),
    (r"permission denied|authentication", "{target} denies access to {source}"),
)


def migration_error_text(
    error: LibvirtError, guest: str, source: str, target: str
) -> str:
    """Return the cause of a failed migration, followed by the libvirt message.

    Args:
        error: The error of the migration.
        guest: The guest.
        source: Its source node.
        target: Its target node.
    """
    message = _single_line(error.message)
    for pattern, template in _KNOWN_CAUSES:
        if re.search(pattern, message, re.IGNORECASE):
            explanation = template.format(guest=guest, source=source, target=target)
            return f"{explanation} (libvirt: {message})"
    return message


def _single_line(message: str) -> str:
    return " ".join(message.split())
