"""Drain of a node on the double of Proxmox VE, with guests of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.test_pve_command_line import SPEED, configure, kill_at
from support.https_server import Request
from support.pve_cluster import PveGuest
from support.pve_double import RunningDouble
from support.pve_fixtures import (
    PVE_MARKS,
    Serve,
    passing_time,
    serve,
    with_guests,
)
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


def test_rolling_maintenance_empties_each_node_by_the_rules(
    serve: Serve, opendrs: RunOpendrs, tmp_path: Path
) -> None:
    running = serve(
        with_guests(
            PveGuest(100, "web", "h1"),
            PveGuest(101, "off", "h2", status="stopped"),
            PveGuest(102, "db", "h3"),
        )
    )
    configure(running)
    with Path("opendrs.toml").open("a") as config:
        config.write('[[rules]]\nkind = "anti-affinity"\nguests = ["web", "db"]\n')
    guests = running.cluster.guests
    hook = tmp_path / "hook"
    hook.write_text(f'echo "$1" >> {tmp_path}/order\n')
    violated: list[str] = []

    def observe(request: Request) -> None:
        if guests[100].node == guests[102].node:
            violated.append(request.path)

    running.double.fault = observe
    words = ("--for", "updates", "--yes", "--hook", f"sh {hook}", "--format", "json")
    with passing_time(running.cluster, SPEED):
        result = opendrs("drain", "lab", *words)

    assert (result.status, json.loads(result.out)["done"]) == (0, ["h1", "h2", "h3"])
    assert (tmp_path / "order").read_text().split() == ["h1", "h2", "h3"]
    # Each guest leaves its node once, and returns once.
    started = sorted(vmid for vmid, _ in running.cluster.migrations_started())
    assert started == [100, 100, 101, 101, 102, 102]
    places = {vmid: guest.node for vmid, guest in guests.items()}
    assert places == {100: "h1", 101: "h2", 102: "h3"}
    assert violated == []


DRAIN = ("drain", "lab", "h1", "--yes")


def drained_cluster(serve: Serve) -> RunningDouble:
    """Serve a cluster with a running and a stopped guest on h1."""
    running = serve(
        with_guests(
            PveGuest(100, "web", "h1", duration=3.0),
            PveGuest(101, "off", "h1", status="stopped"),
        )
    )
    Path("store.sqlite").unlink(missing_ok=True)
    configure(running)
    return running


def require_drained(running: RunningDouble) -> None:
    """Require that each guest left h1 by one migration."""
    guests = running.cluster.guests
    assert "h1" not in {guest.node for guest in guests.values()}
    started = sorted(vmid for vmid, _ in running.cluster.migrations_started())
    assert started == [100, 101]
    assert guests[101].status == "stopped"


def writes_of_a_drain(serve: Serve, opendrs: RunOpendrs) -> int:
    """Drain without a fault; return the number of requests that write."""
    running = drained_cluster(serve)
    methods: list[str] = []
    running.double.fault = lambda request: methods.append(request.method)
    with passing_time(running.cluster, SPEED):
        assert opendrs(*DRAIN).status == 0
    require_drained(running)
    return sum(name != "GET" for name in methods)


def write_number(number: int, *, after: bool) -> Callable[[Request], bool]:
    """Return a function that is true of the write *number*, or of the request after.

    Other requests are not counted: there are more of them the longer a step takes.
    """
    writes = 0

    def is_it(request: Request) -> bool:
        nonlocal writes
        is_after = writes == number
        writes += request.method != "GET"
        return is_after if after else writes == number

    return is_it


@pytest.mark.slow
def test_drain_killed_at_each_write_is_continued_and_starts_nothing_twice(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    assert writes_of_a_drain(serve, opendrs) == 2

    for number in (1, 2):
        for after, has_effect in ((False, False), (False, True), (True, True)):
            running = drained_cluster(serve)
            at = write_number(number, after=after)
            with passing_time(running.cluster, SPEED):
                method = kill_at(running, at, has_effect=has_effect, words=DRAIN)
                again = opendrs(*DRAIN)

            assert method == ("GET" if after else "POST")
            assert again.status == 0, (number, after, again.out, again.err)
            require_drained(running)
