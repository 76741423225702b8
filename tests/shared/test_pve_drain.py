"""Drain of a node on the double of Proxmox VE, with guests of every kind."""

from __future__ import annotations

import json

from shared.test_pve_command_line import SPEED, configure
from support.pve_cluster import PveGuest
from support.pve_fixtures import PVE_MARKS, Serve, passing_time, serve, with_guests
from support.terminal import RunOpendrs
from unit.cli.conftest import opendrs

__all__ = ["opendrs", "serve"]  # fixtures
pytestmark = PVE_MARKS


def test_guests_of_every_kind_leave_and_return(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(
        with_guests(
            PveGuest(100, "web", "h1"),
            PveGuest(101, "off", "h1", status="stopped"),
            PveGuest(102, "ct", "h1", kind="lxc"),
            PveGuest(103, "ct-off", "h1", kind="lxc", status="stopped"),
            PveGuest(104, "managed", "h1", ha="started"),
            PveGuest(105, "gpu", "h1", devices=("hostpci0",)),
        )
    )
    configure(running, restart_containers=True)
    guests = running.cluster.guests

    with passing_time(running.cluster, SPEED):
        drained = opendrs("drain", "lab", "h1", "--yes", "--format", "json")
        places = {vmid: guest.node for vmid, guest in guests.items()}
        returned = opendrs("undrain", "lab", "h1", "--bring-back")

    document = json.loads(drained.out)
    (remaining,) = document["remaining"]
    assert (remaining["guest"], remaining["reason"]) == ("gpu", "mobility-none")
    assert {each["outcome"] for each in document["records"]} == {"done"}
    assert places.pop(105) == "h1"
    assert "h1" not in places.values()
    assert set(places.values()) == {"h2", "h3"}  # spread
    assert returned.status == 0
    assert {guest.node for guest in guests.values()} == {"h1"}
    states = {vmid: guest.status for vmid, guest in guests.items()}
    assert (states[100], states[101], states[103]) == ("running", "stopped", "stopped")
