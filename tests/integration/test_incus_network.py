"""Network load of a real virtual machine of Incus."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.incus_lab import BASE, ROOT, SUITE, IncusLab
from integration.network_traffic import broadcast_to, configure_link
from opendrs.model import GuestId, LoadAmounts, NodeId

pytestmark = [pytest.mark.shared, pytest.mark.lab]

RATE = 100 << 10  # bytes per second
BRIDGE = "opendrs-lab"
V1, N1, N2 = GuestId("v1"), NodeId("n1"), NodeId("n2")


def provide_taps(member: str) -> None:
    """Make the device of tap interfaces in the member's own /dev."""
    pid = (BASE / "state" / member / "pid").read_text().strip()
    child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    device = ROOT / "dev" / "net" / "tun"
    command = f"mkdir -p {device.parent}; test -e {device} || mknod {device} c 10 200"
    subprocess.run(  # noqa: S603 - words of the tests
        ["nsenter", "-m", "-t", child, "sh", "-c", command],  # noqa: S607
        check=True,
    )


@contextmanager
def bridge() -> Iterator[None]:
    """Have a bridge on this machine, which all members share."""
    configure_link("link", "add", BRIDGE, "type", "bridge")
    try:
        yield
    finally:
        configure_link("link", "del", BRIDGE)


def load_after_start(lab: IncusLab, *nic: str) -> LoadAmounts:
    """Return the loads of v1 with a card, in the first seconds after its start.

    The firmware then listens for a server to boot from.
    """
    lab.incus("stop", "--force", "v1")
    lab.incus("config", "device", "add", "v1", "eth0", "nic", "mtu=1500", *nic)
    lab.incus("start", "v1")
    seen = lab.platform(network_capacity=1.25e9, sample=10.0).observe()
    lab.incus("stop", "--force", "v1")
    loads = seen.guests[V1].loads
    assert seen.nodes[N1].loads == loads
    assert seen.nodes[N2].loads == {"network": 0}
    return loads


def test_traffic_of_bridged_cards_is_measured(incus_lab: IncusLab) -> None:
    provide_taps("n1")
    incus_lab.vm("v1", "n1")
    with bridge(), broadcast_to("10.98.0", BRIDGE, RATE):
        load = load_after_start(incus_lab, "nictype=bridged", f"parent={BRIDGE}")

    # The firmware starts to listen after some seconds.
    assert 0.1 * RATE < load["network"] < 1.3 * RATE


def test_incus_6_0_does_not_count_point_to_point_cards(incus_lab: IncusLab) -> None:
    provide_taps("n1")
    incus_lab.vm("v1", "n1")

    loads = load_after_start(incus_lab, "nictype=p2p")

    if SUITE == "bookworm":
        assert loads == {}
    else:  # requests of the firmware for an address
        assert 0 < loads["network"] < 2000
