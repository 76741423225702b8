"""Connections to libvirt hosts with a timeout; libvirt-python is loaded on first use.

Calls of libvirt block until the network fails, which takes minutes for a dead host.
Each call therefore runs in a separate thread, which is abandoned after the timeout.
An abandoned thread holds no lock that the next call needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from threading import Event, Lock
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    PlatformError,
    PlatformUnavailableError,
)
from opendrs.model import NodeId
from opendrs.platforms.libvirt.errors import (
    ErrorCode,
    LibvirtError,
    is_unreachable,
    opening_error,
    platform_error,
)
from opendrs.transport.threads import start_thread

T = TypeVar("T")


def open_connection(node: NodeId, uri: str) -> RawConnection:
    """Return a new connection.

    Raises:
        ConfigurationError: libvirt cannot use the URI, or is not installed.
        PlatformError: The host is unreachable, or denies access.
    """
    library, has_question = load_library(), Event()

    def reject(*_: object) -> int:
        """Answer a question that auth.conf does not answer: no terminal is used."""
        has_question.set()
        return -1

    # Without credential types, libvirt would not read auth.conf.
    types = [library.VIR_CRED_AUTHNAME, library.VIR_CRED_PASSPHRASE]
    try:
        return library.openAuth(uri, [types, reject, None], 0)
    except library.libvirtError as error:
        details = error_details(error)
        if has_question.is_set():
            message = "no SASL credentials for it in auth.conf"
            details = replace(details, code=ErrorCode.AUTH_CANCELLED, message=message)
        raise opening_error(node, details) from None


@dataclass(slots=True)
class _CachedConnection:
    """A connection that is reused, by one thread at a time."""

    lock: Lock = field(default_factory=Lock)
    connection: RawConnection = None


class LibvirtConnection:
    """Connection to one hypervisor host.

    Args:
        node: The node.
        uri: The connection URI.
        timeout: Timeout of each call in seconds.
    """

    def __init__(self, node: NodeId, uri: str, timeout: float) -> None:
        self.node = node
        self.uri = uri
        self._timeout = timeout
        self._cached = _CachedConnection()

    def query(self, call: Callable[[RawConnection], T]) -> T:
        """Return the result of *call*, which receives the raw connection.

        Raises:
            ConfigurationError: libvirt cannot use the URI, or is not installed.
            PlatformUnavailableError: The host is unreachable, or the call timed out.
            PlatformError: The host reported another error.
        """
        cached = self._cached
        future = start_thread(lambda: self._query(cached, call))
        try:
            return future.result(self._timeout)
        except TimeoutError:
            self._cached = _CachedConnection()
            raise PlatformUnavailableError(
                f"{self.node}: timeout after {self._timeout:g} s"
            ) from None

    def _query(
        self, cached: _CachedConnection, call: Callable[[RawConnection], T]
    ) -> T:
        with cached.lock:
            if cached.connection is None:
                cached.connection = open_connection(self.node, self.uri)
            try:
                return call(cached.connection)
            except load_library().libvirtError as error:
                libvirt_error = error_details(error)
                if is_unreachable(libvirt_error):
                    cached.connection = None  # the next call opens another one
                raise platform_error(self.node, libvirt_error) from None


def query_all(
    hosts: Mapping[NodeId, LibvirtConnection], call: Callable[[LibvirtConnection], T]
) -> tuple[dict[NodeId, T], dict[NodeId, PlatformError]]:
    """Run *call* on all *hosts* in parallel.

    Returns:
        The results, and the errors of unreachable hosts.

    Raises:
        ConfigurationError: A URI cannot be used, or libvirt is not installed.
        PlatformError: A reachable host reported an error.
    """
    futures = {node: start_thread(partial(call, host)) for node, host in hosts.items()}
    responses: dict[NodeId, T] = {}
    unreachable_hosts: dict[NodeId, PlatformError] = {}
    for node, future in futures.items():
        try:
            responses[node] = future.result()
        except PlatformUnavailableError as error:
            unreachable_hosts[node] = error
    return responses, unreachable_hosts


# libvirt-python has no types; the public functions of this package do.
RawConnection: TypeAlias = Any
RawDomain: TypeAlias = Any


@cache
def load_library() -> ModuleType:
    """Return the module `libvirt`, without its error output.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        module = import_module("libvirt")
    except ImportError as error:
        raise ConfigurationError(
            "libvirt: libvirt-python is not installed; run make libvirt, or "
            "pip install '.[libvirt]', in a checkout of opendrs",
            "libvirt: the build needs a compiler and the libvirt headers; on Debian "
            "run apt-get install gcc pkg-config python3-dev libvirt-dev",
            code=DiagnosticCode.UNUSABLE_LIBRARY,
        ) from error
    except SystemError as error:  # in a process that has changed its user
        raise ConfigurationError(
            f"libvirt: cannot be loaded: {error}", code=DiagnosticCode.UNUSABLE_LIBRARY
        ) from error
    # By default libvirt also writes each error to standard error.
    module.registerErrorHandler(_ignore_error, None)
    return module


def _ignore_error(*_: object) -> None:
    """Ignore an error that libvirt also raises."""


def error_details(error: Exception) -> LibvirtError:
    """Return the details of a libvirtError."""
    raw_error: Any = error
    return LibvirtError(
        code=raw_error.get_error_code() or 0,
        domain=raw_error.get_error_domain() or 0,
        errno=raw_error.get_int1() or 0,
        message=raw_error.get_error_message() or str(error),
    )
