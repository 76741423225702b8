"""Ports of this machine for servers in other processes."""

from __future__ import annotations

import os
import socket
from itertools import cycle

# Below the ports that Linux chooses itself: no other socket takes one of these between
# its choice and its use. Each process has some of its own.
_FIRST, _EACH, _PARTS = 15_000, 100, 170
_begin = _FIRST + os.getpid() % _PARTS * _EACH
_ports = cycle(range(_begin, _begin + _EACH))


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free."""
    while True:
        port = next(_ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
