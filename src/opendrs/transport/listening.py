"""Sockets that listen on an address of the configuration."""

from __future__ import annotations

import errno
import os
import socket

from opendrs.errors import ConfigurationError

_BACKLOG = 128


def listening_socket(
    table: str, listen: str, address: tuple[str, int]
) -> socket.socket:
    """Return a listening socket that is bound to *address*.

    Args:
        table: Table of the configuration, for error messages.
        listen: The setting `listen` of that table.
        address: Address and port in *listen*.

    Raises:
        ConfigurationError: The address is not one of this machine, is in use, or
            requires permissions.
    """
    host, port = address
    try:
        family, *_, found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(found[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"{table}.listen: cannot listen on {listen}: {_socket_error_detail(error)}"
        ) from error


def socket_address(listening: socket.socket) -> str:
    """Return the address and the port of *listening*, as in a URL."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _socket_error_detail(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "address in use by another process"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return "unknown address"
    return os.strerror(error.errno)
