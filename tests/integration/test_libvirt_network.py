"""Network load of real virtual machines: measured, and balanced by live migration."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from integration.libvirt_lab import LibvirtLab
from integration.network_traffic import broadcast_to
from integration.test_libvirt_rebalance import CommandLineOperator
from opendrs.model import GuestId, NodeId

pytestmark = [pytest.mark.shared, pytest.mark.lab]

RATE = 512 << 10  # bytes per second that each guest receives
CAPACITY = 2 << 20
EMULATOR = "<emulator>/usr/bin/qemu-system-x86_64</emulator>"
# An emulated card that takes packets without a driver.
CARD = "<interface type='ethernet'><model type='rtl8139'/></interface>"


def start_with_card(lab: LibvirtLab, host: int, name: str) -> None:
    """Start a guest with a network card."""
    lab.vm(host, name)
    lab.virsh(host, "destroy", name)
    described = lab.description(name).replace(EMULATOR, EMULATOR + CARD)
    lab.define(host, described, "create")


def traffic_to(
    lab: LibvirtLab, host: int, name: str, subnet: str
) -> AbstractContextManager[None]:
    """Send `RATE` bytes per second to the card of a guest, from its host."""
    interfaces = lab.virsh(host, "domiflist", name)
    found = re.search(r"vnet\d+", interfaces)
    assert found, interfaces
    return broadcast_to(subnet, found[0], RATE, space=f"{lab.prefix}-h{host}")


def test_traffic_is_measured_and_balanced(lab: LibvirtLab, tmp_path: Path) -> None:
    for name in ("one", "two"):
        start_with_card(lab, 1, name)
    for host, name in ((2, "idle1"), (2, "idle2"), (3, "idle3"), (3, "idle4")):
        lab.vm(host, name)  # without traffic, all hosts have as much memory in use
    operator = CommandLineOperator(
        lab,
        tmp_path,
        platform={"network_capacity": float(CAPACITY), "sample": "2 s"},
        policy={"name": "optimize", "optimize": {"budget": "1 migration"}},
        limits={"loads": [{"name": "network", "weight": 10.0}]},  # it counts most
    )

    first = traffic_to(lab, 1, "one", "10.99.1")
    second = traffic_to(lab, 1, "two", "10.99.2")
    with first, second:
        seen = lab.platform(network_capacity=CAPACITY, sample=2.0).observe()
        done = operator.runs("apply", "lab", "--yes")

    loads = [seen.guests[GuestId(name)].loads["network"] for name in ("one", "two")]
    # The headers of packets count as well; a busy machine sends less.
    assert all(0.2 * RATE < load < 1.3 * RATE for load in loads), loads
    assert seen.nodes[NodeId("h1")].loads["network"] == pytest.approx(sum(loads))
    assert seen.nodes[NodeId("h2")].loads["network"] == 0
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.names(1) in (["one"], ["two"]), done.stdout
    for name in ("one", "two"):
        lab.require_alive(name)
