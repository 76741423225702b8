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


class Code(IntEnum):
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


class Source(IntEnum):
    """The parts of libvirt that matter here (virErrorDomain)."""

    RPC = 7
    REMOTE = 13
    URI = 45


@dataclass(frozen=True, slots=True)
class Failure:
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


_REFUSED = frozenset(
    {
        Code.OPERATION_DENIED,
        Code.AUTH_FAILED,
        Code.AUTH_CANCELLED,
        Code.ACCESS_DENIED,
        Code.AUTH_UNAVAILABLE,
    }
)
_REFUSED_WORDS = re.compile(
    r"permission denied|host key verification failed", re.IGNORECASE
)
_UNREACHABLE = frozenset(
    {
        Code.INVALID_CONN,
        Code.SYSTEM_ERROR,
        Code.RPC,
        Code.GNUTLS_ERROR,
        Code.OPERATION_TIMEOUT,
        Code.SSH,
        Code.LIBSSH,
    }
)
_UNSUPPORTED = frozenset(
    {Code.NO_SUPPORT, Code.CONFIG_UNSUPPORTED, Code.OPERATION_UNSUPPORTED}
)


def opening_error(node: str, failure: Failure) -> OpenDRSError:
    """Return the error for a connection that could not be opened."""
    misread = failure.code in {Code.NO_CONNECT, Code.INVALID_ARG}
    if misread or failure.domain == Source.URI:
        return ConfigurationError(
            f"nodes.{node}: libvirt cannot use this URI: {_plain(failure.message)}"
        )
    return platform_error(node, failure)


def platform_error(node: str, failure: Failure) -> PlatformError:
    """Return the error for something *node* did not do."""
    said = _plain(failure.message)
    if refused(failure):
        return PermissionDeniedError(f"{node} refuses: {said}")
    if unreachable(failure):
        return PlatformUnavailableError(f"{node} cannot be reached: {said}")
    if failure.code in _UNSUPPORTED:
        return UnsupportedError(f"{node} cannot do that: {said}")
    return PlatformError(f"{node} says: {said}")


def refused(failure: Failure) -> bool:
    """Return whether permission was missing."""
    denied = failure.errno in {system.EACCES, system.EPERM}
    return failure.code in _REFUSED or (
        failure.code == Code.SYSTEM_ERROR
        and (denied or bool(_REFUSED_WORDS.search(failure.message)))
    )


def unreachable(failure: Failure) -> bool:
    """Return whether the host did not answer, or no longer does."""
    return failure.code in _UNREACHABLE or (
        failure.code == Code.INTERNAL_ERROR and failure.domain == Source.RPC
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


def cause(failure: Failure, guest: str, source: str, target: str) -> str:
    """Return in plain words why a migration failed, with libvirt's words."""
    said = _plain(failure.message)
    for pattern, words in _KNOWN_CAUSES:
        if re.search(pattern, said, re.IGNORECASE):
            known = words.format(guest=guest, source=source, target=target)
            return f"{known} (libvirt: {said})"
    return said


def _plain(message: str) -> str:
    return " ".join(message.split())
