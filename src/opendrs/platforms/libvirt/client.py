"""Connections to libvirt hosts, with a deadline for each call; libvirt-python is loaded on first use.

libvirt's calls block as long as the network lets them, which for a dead host is
minutes. So each runs in a thread of its own, which is abandoned when the deadline
passes: it holds nothing that the next call needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from opendrs.errors import ConfigurationError, PlatformError, PlatformUnavailableError
from opendrs.model import NodeId
from opendrs.platforms.background import start_thread
from opendrs.platforms.libvirt.errors import (
    LibvirtError,
    is_unreachable,
    opening_error,
    platform_error,
)

T = TypeVar("T")


def open_connection(node: NodeId, uri: str) -> RawConnection:
    """Return a new connection.

    Raises:
        ConfigurationError: libvirt cannot use the URI, or is not installed.
        PlatformError: The host cannot be reached, or refuses.
    """
    try:
        return load_library().open(uri)
    except load_library().libvirtError as error:
        raise opening_error(node, error_details(error)) from None


@dataclass(slots=True)
class _CachedConnection:
    """A connection that is kept, and used by one thread at a time."""

    lock: Lock = field(default_factory=Lock)
    connection: RawConnection = None


class LibvirtConnection:
    """One hypervisor host."""

    def __init__(self, node: NodeId, uri: str, timeout: float) -> None:
        self.node = node
        self.uri = uri
        self._timeout = timeout
        self._cached = _CachedConnection()

    def query(self, call: Callable[[RawConnection], T]) -> T:
        """Return the answer to *call*.

        Raises:
            ConfigurationError: libvirt cannot use the URI, or is not installed.
            PlatformUnavailableError: The host did not answer in time.
            PlatformError: The host said that it cannot or will not.
        """
        cached = self._cached
        future = start_thread(lambda: self._query(cached, call))
        try:
            return future.result(self._timeout)
        except TimeoutError:
            self._cached = _CachedConnection()
            raise PlatformUnavailableError(
                f"{self.node} did not answer within {self._timeout:g} s"
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
                    cached.connection = None  # the next question opens another
                raise platform_error(self.node, libvirt_error) from None


def query_all(
    hosts: Mapping[NodeId, LibvirtConnection], call: Callable[[LibvirtConnection], T]
) -> tuple[dict[NodeId, T], dict[NodeId, PlatformError]]:
    """Ask all *hosts* together.

    Returns:
        The answers, and the errors of those that cannot be reached now.

    Raises:
        ConfigurationError: A URI cannot be used, or libvirt is not installed.
        PlatformError: A host was reached and did not do what was asked.
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


# libvirt-python has no types; what leaves this package is typed.
RawConnection: TypeAlias = Any
RawDomain: TypeAlias = Any


@cache
def load_library() -> ModuleType:
    """Return the module libvirt, silenced.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        module = import_module("libvirt")
    except ImportError as error:
        raise ConfigurationError(
            "the libvirt platform needs libvirt-python, which is not there: "
            "make libvirt, or pip install '.[libvirt]', in a checkout of opendrs",
            "it is built from source and needs a compiler and libvirt's headers; "
            "on Debian: apt-get install gcc pkg-config python3-dev libvirt-dev",
        ) from error
    except SystemError as error:  # in a process that has changed its user
        raise ConfigurationError(f"libvirt cannot be loaded: {error}") from error
    # By default libvirt writes each error to stderr as well as raising it.
    module.registerErrorHandler(_ignore_error, None)
    return module


def _ignore_error(*_: object) -> None:
    """Take note of an error that libvirt also raises."""


def error_details(error: Exception) -> LibvirtError:
    """Return what a libvirtError says."""
    raw_error: Any = error
    return LibvirtError(
        code=raw_error.get_error_code() or 0,
        domain=raw_error.get_error_domain() or 0,
        errno=raw_error.get_int1() or 0,
        message=raw_error.get_error_message() or str(error),
    )
