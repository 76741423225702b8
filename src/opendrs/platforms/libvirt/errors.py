"""What libvirt's errors mean.

The numbers are those of libvirt's `virErrorNumber` and `virErrorDomain`; the
messages were recorded from libvirt 9.0.
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
    """The kinds of error that matter here (virErrorNumber)."""

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
    """The parts of libvirt that matter here (virErrorDomain)."""

    RPC = 7
    REMOTE = 13
    URI = 45


@dataclass(frozen=True, slots=True)
class LibvirtError:
    """What libvirt said.

    Attributes:
        code: Kind of error, a `Code` or another number.
        domain: Part of libvirt that failed, a `Source` or another number.
        errno: The system's error number for a system error.
        message: libvirt's words.
    """

    code: int
    domain: int
    errno: int
    message: str


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
            f"nodes.{node}: libvirt cannot use this URI: {_single_line(error.message)}"
        )
    return platform_error(node, error)


def platform_error(node: str, error: LibvirtError) -> PlatformError:
    """Return the error for something *node* did not do."""
    message = _single_line(error.message)
    if is_permission_denied(error):
        return PermissionDeniedError(f"{node} refuses: {message}")
    if is_unreachable(error):
        return PlatformUnavailableError(f"{node} cannot be reached: {message}")
    if error.code in _UNSUPPORTED_CODES:
        return UnsupportedError(f"{node} cannot do that: {message}")
    return PlatformError(f"{node} says: {message}")


def is_permission_denied(error: LibvirtError) -> bool:
    """Return whether permission was missing."""
    denied = error.errno in {system.EACCES, system.EPERM}
    return error.code in _DENIED_CODES or (
        error.code == ErrorCode.SYSTEM_ERROR
        and (denied or bool(_DENIED_MESSAGES.search(error.message)))
    )


def is_unreachable(error: LibvirtError) -> bool:
    """Return whether the host did not answer, or no longer does."""
    return error.code in _UNREACHABLE_CODES or (
        error.code == ErrorCode.INTERNAL_ERROR and error.domain == ErrorDomain.RPC
    )


_KNOWN_CAUSES = (
    (r"already exists with uuid", "another guest called {guest} is on {target}"),
    (r"another migration job is already", "it is being migrated already"),
    (r"same host", "{source} and {target} are one and the same host"),
    (r"canceled by client|cancelled by client", "it was given up"),
    (
        (
            r"client socket is closed|unable to write to socket|bad file descriptor|"
            r"keepalive|broken pipe|connection reset|end of file|lost connection|"
            r"qemu unexpectedly closed the monitor"
        ),
        "the connection to {target} broke, or {target} failed",
    ),
    (
        (
            r"unable to connect|no route to host|connection refused|timed out|"
            r"unable to resolve|name or service not known|cannot recv data"
        ),
        "{target} cannot be reached from {source}",
    ),
    (
        r"unsafe migration",
        (
            "libvirt cannot see that its disks are shared; where they are, allow it "
            "with the setting unsafe"
        ),
    ),
    (
        r"guest cpu (doesn't|does not) match|cpu is not compatible|missing features",
        "the processor of {target} lacks something it uses",
    ),
    (r"snapshot", "a guest that has snapshots cannot be migrated by libvirt"),
    (r"cannot allocate memory|cannot set up guest memory", "{target} lacks memory"),
    (r"permission denied|authentication", "{target} refuses {source}"),
)


def migration_error_text(
    error: LibvirtError, guest: str, source: str, target: str
) -> str:
    """Return in plain words why a migration failed, with libvirt's words."""
    message = _single_line(error.message)
    for pattern, template in _KNOWN_CAUSES:
        if re.search(pattern, message, re.IGNORECASE):
            explanation = template.format(guest=guest, source=source, target=target)
            return f"{explanation} (libvirt: {message})"
    return message


def _single_line(message: str) -> str:
    return " ".join(message.split())
