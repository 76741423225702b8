"""Network load of real virtual machines: measured, and balanced by live migration."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w

from integration.libvirt_lab import LibvirtLab
from integration.test_libvirt_rebalance import OPENDRS
from opendrs.model import GuestId, NodeId

pytestmark = [pytest.mark.shared, pytest.mark.lab]

KIB = 1 << 10
RATE = 512 * KIB  # bytes per second that each guest receives
CAPACITY = 2 << 20
# An emulated card that takes packets without a driver; the guests have none.
CARD = (
    "<interface type='ethernet'><model type='rtl8139'/></interface>"
    "<emulator>/usr/bin/qemu-system-x86_64</emulator>"
)
SENDER = """
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


@contextmanager
def traffic_to(lab: LibvirtLab, host: int, name: str, number: int) -> Iterator[None]:
    """Send `RATE` bytes per second to the card of a guest, from its host."""
    found = re.search(r"vnet\d+", lab.virsh(host, "domiflist", name))
    assert found, lab.virsh(host, "domiflist", name)
    space, link = f"{lab.prefix}-h{host}", found[0]
    for words in (
        ["link", "set", link, "up"],
        ["addr", "add", f"10.99.{number}.1/24", "dev", link],
    ):
        subprocess.run(["ip", "-n", space, *words], check=True)  # noqa: S603, S607
    words = ["ip", "netns", "exec", space, sys.executable, "-c", SENDER]
    sender = subprocess.Popen([*words, f"10.99.{number}.255", str(RATE)])  # noqa: S603
    try:
        yield
    finally:
        sender.kill()
        sender.wait()


def start_with_card(lab: LibvirtLab, host: int, name: str) -> None:
    """Start a guest with a network card."""
    lab.vm(host, name)
    lab.virsh(host, "destroy", name)
    emulator = "<emulator>/usr/bin/qemu-system-x86_64</emulator>"
    lab.define(host, lab.description(name).replace(emulator, CARD), "create")


def test_traffic_is_measured_and_balanced(lab: LibvirtLab, tmp_path: Path) -> None:
    for name in ("one", "two"):
        start_with_card(lab, 1, name)
    for host, name in ((2, "idle1"), (2, "idle2"), (3, "idle3"), (3, "idle4")):
        lab.vm(host, name)  # memory and CPU alone would move no guest
    settings = lab.settings()
    config = tmp_path / "opendrs.toml"
    document = {
        "platform": {
            "lab": {
                "kind": "libvirt",
                "nodes": dict(settings.nodes),
                "migration_uris": dict(settings.migration_uris),
                "network_capacity": float(CAPACITY),
                "sample": "2 s",
            }
        },
        "policy": {"name": "optimize", "optimize": {"budget": "1 migration"}},
        "limits": {"loads": [{"name": "network", "weight": 10.0}]},
        "store": {"path": str(tmp_path / "record.sqlite")},
    }
    config.write_text(tomli_w.dumps(document))

    with traffic_to(lab, 1, "one", 1), traffic_to(lab, 1, "two", 2):
        seen = lab.platform(network_capacity=CAPACITY, sample=2.0).observe()
        loads = [seen.guests[GuestId(name)].loads["network"] for name in ("one", "two")]
        done = subprocess.run(  # noqa: S603 - our own command
            [str(OPENDRS), "apply", "lab", "--yes", "--config", str(config)],
            capture_output=True,
            text=True,
            check=False,
        )

    # With the headers of packets; a busy machine sends less.
    assert all(0.2 * RATE < load < 1.3 * RATE for load in loads), loads
    assert seen.nodes[NodeId("h1")].loads["network"] == pytest.approx(sum(loads))
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.names(1) in (["one"], ["two"]), done.stdout
    for name in ("one", "two"):
        lab.require_alive(name)
