"""Traffic that tests send to the network cards of real guests.

The guests have no network driver. A packet counts as received by a guest if its card
takes it without one, or if its firmware listens.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SENDER = """
import socket, sys, time
target, rate = sys.argv[1], int(sys.argv[2])
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
start, sent = time.monotonic(), 0
while True:
    while sent < (time.monotonic() - start) * rate:
        sent += link.sendto(bytes(1400), (target, 9))
    time.sleep(0.01)
"""


def configure_link(*words: str, space: str | None = None) -> None:
    """Run `ip` in the network namespace *space*, or in that of the tests."""
    within = [] if space is None else ["-n", space]
    subprocess.run(["ip", *within, *words], check=True)  # noqa: S603, S607


@contextmanager
def broadcast_to(
    subnet: str, link: str, rate: int, *, space: str | None = None
) -> Iterator[None]:
    """Send packets to all cards of a network.

    Args:
        subnet: First three numbers of the addresses of the network; not in use.
        link: Link of the machine to the network. It gets the first address.
        rate: Bytes per second, without the headers of packets.
        space: Network namespace of the link; None for that of the tests.
    """
    configure_link("link", "set", link, "up", space=space)
    configure_link("addr", "add", f"{subnet}.1/24", "dev", link, space=space)
    within = [] if space is None else ["ip", "netns", "exec", space]
    words = [*within, sys.executable, "-c", _SENDER, f"{subnet}.255", str(rate)]
    sender = subprocess.Popen(words)  # noqa: S603 - words of the tests
    try:
        yield
    finally:
        sender.kill()
        sender.wait()
