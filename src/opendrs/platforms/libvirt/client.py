"""Hosts, asked over libvirt, each with a deadline.

libvirt's calls wait as long as the network lets them, which for a dead host is
minutes. So each runs in a thread of its own, which is left behind when the
deadline passes: it holds nothing the next call needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeVar

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import NodeId
from opendrs.platforms.background import begun
from opendrs.platforms.libvirt.failures import (
    opening_error,
    platform_error,
    unreachable,
)
from opendrs.platforms.libvirt.library import Connection, failure, library

T = TypeVar("T")


def opened(node: NodeId, uri: str) -> Connection:
    """Return a new connection.

    Raises:
        ConfigurationError: libvirt cannot use the URI, or is not installed.
        PlatformError: The host cannot be reached, or refuses.
    """
    try:
        return library().open(uri)
    except library().libvirtError as error:
        raise opening_error(node, failure(error)) from None


@dataclass(slots=True)
class _Line:
    """A connection that is kept, and used by one thread at a time."""

    lock: Lock = field(default_factory=Lock)
    connection: Connection = None


class Host:
    """One hypervisor host."""

    def __init__(self, node: NodeId, uri: str, timeout: float) -> None:
        self.node = node
        self.uri = uri
        self._timeout = timeout
        self._line = _Line()

    def ask(self, question: Callable[[Connection], T]) -> T:
        """Return the answer to *question*.

        Raises:
            ConfigurationError: libvirt cannot use the URI, or is not installed.
            PlatformUnavailableError: The host did not answer in time.
            PlatformError: The host said that it cannot or will not.
        """
        line = self._line
        answer = begun(lambda: self._asked(line, question))
        try:
            return answer.result(self._timeout)
        except TimeoutError:
            self._line = _Line()
            raise PlatformUnavailableError(
                f"{self.node} did not answer within {self._timeout:g} s"
            ) from None

    def _asked(self, line: _Line, question: Callable[[Connection], T]) -> T:
        with line.lock:
            if line.connection is None:
                line.connection = opened(self.node, self.uri)
            try:
                return question(line.connection)
            except library().libvirtError as error:
                told = failure(error)
                if unreachable(told):
                    line.connection = None  # the next question opens another
                raise platform_error(self.node, told) from None


def asked_at_once(
    hosts: Mapping[NodeId, Host], question: Callable[[Host], T]
) -> tuple[dict[NodeId, T], dict[NodeId, PlatformError]]:
    """Ask all *hosts* together.

    Returns:
        The answers, and the errors of those that cannot be reached now.

    Raises:
        ConfigurationError: A URI cannot be used, or libvirt is not installed.
        PlatformError: A host was reached and did not do what was asked.
    """
    futures = {node: begun(partial(question, host)) for node, host in hosts.items()}
    answers: dict[NodeId, T] = {}
    silent: dict[NodeId, PlatformError] = {}
    for node, future in futures.items():
        try:
            answers[node] = future.result()
        except PlatformUnavailableError as error:
            silent[node] = error
    return answers, silent
