"""Observation of real hosts and guests by the libvirt platform."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

import pytest

from integration.libvirt_lab import HOSTS, LibvirtLab, eventually
from opendrs.errors import PermissionDeniedError, PlatformUnavailableError
from opendrs.model import (
    AntiAffinity,
    GuestId,
    GuestState,
    LiveMigration,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Resources,
    Snapshot,
)
from opendrs.platforms.libvirt.client import load_library
from opendrs.ports import TaskState

pytestmark = [pytest.mark.shared, pytest.mark.lab]

H1, H2 = NodeId("h1"), NodeId("h2")
VM = GuestId("vm")
MIB = 1 << 20


def test_hosts_and_guests_have_capacity_and_usage(lab: LibvirtLab) -> None:
    lab.vm(1, "busy", duty=50)
    lab.vm(2, "idle", memory=24)
    eventually(lambda: len(lab.heartbeats("busy")) > 2, 20, "busy has started")

    samples: list[tuple[float, Snapshot]] = []

    def has_run() -> bool:
        began, spent = monotonic(), lab.cpu_seconds(1, "busy")
        seen = lab.platform(sample=2.0).observe()
        cores = (lab.cpu_seconds(1, "busy") - spent) / (monotonic() - began)
        samples.append((cores, seen))
        return cores > 0.1

    # A guest that the machine starves uses less than its half of a processor.
    eventually(has_run, 20, "busy uses a tenth of a processor")
    cores, seen = samples[-1]
    node = seen.nodes[H1]
    busy, idle = seen.guests[GuestId("busy")], seen.guests[GuestId("idle")]

    assert set(seen.nodes) == {f"h{host}" for host in HOSTS}
    assert node.state is NodeState.ONLINE
    assert node.capacity == Resources(os.cpu_count() or 0, 2048 * MIB)
    assert node.architecture == os.uname().machine
    assert node.cpu_model
    assert node.load_average is None
    assert (node.ksm_shared is not None) is Path("/sys/kernel/mm/ksm").exists()
    assert (busy.node, busy.state, busy.mobility) == (
        H1,
        GuestState.RUNNING,
        Mobility.LIVE,
    )
    assert busy.limit == Resources(1, 16 * MIB)
    assert idle.limit == Resources(1, 24 * MIB)
    assert busy.usage.cpu == pytest.approx(cores, abs=0.15)
    assert idle.usage.cpu == pytest.approx(0.0, abs=0.1)
    assert node.usage.cpu == pytest.approx(busy.usage.cpu, abs=0.4)
    assert node.usage.memory is not None
    assert busy.usage.memory is not None
    assert 16 * MIB < busy.usage.memory < node.usage.memory < 1024 * MIB


def test_traffic_is_that_of_interfaces_with_counters(lab: LibvirtLab) -> None:
    for host, name, kind in ((1, "tap", "ethernet"), (2, "user", "user")):
        lab.vm(host, name)
        lab.virsh(host, "destroy", name)
        nic = f"<interface type='{kind}'><model type='virtio'/></interface></devices>"
        lab.define(host, lab.description(name).replace("</devices>", nic), "create")

    seen = lab.platform(network_capacity=1.25e9).observe()

    # A guest that sends nothing: what the host itself sends is below 1 kB/s.
    assert 0 <= seen.guests[GuestId("tap")].loads["network"] < 1000
    assert seen.guests[GuestId("user")].loads == {}
    assert seen.nodes[H1].loads == seen.guests[GuestId("tap")].loads
    assert seen.nodes[H2].loads == {}
    assert seen.nodes[NodeId("h3")].loads == {"network": 0}
    assert all(each.load_capacities for each in seen.nodes.values())


def test_stopped_and_paused_guests_are_observed(lab: LibvirtLab) -> None:
    lab.vm(1, "off")
    lab.vm(1, "paused")
    lab.virsh(1, "suspend", "paused")
    lab.virsh(1, "destroy", "off")
    lab.define(1, lab.description("off"))

    seen = lab.platform().observe().guests
    off, paused = seen[GuestId("off")], seen[GuestId("paused")]

    assert off.state is GuestState.STOPPED
    assert off.limit == Resources(1, 16 * MIB)
    assert off.usage.cpu is None
    assert paused.state is GuestState.PAUSED


def test_immobile_guest_has_a_mobility_detail(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    lab.virsh(1, "destroy", "vm")
    disk = (
        "<disk type='file'><source file='/tmp/vm.img'/><target dev='vda'/></disk>"
        "</devices>"
    )
    lab.define(1, lab.description("vm").replace("</devices>", disk))

    here = lab.platform().observe().guests[VM]
    shared = lab.platform(shared_storage=("/tmp",)).observe().guests[VM]  # noqa: S108

    assert here.mobility is Mobility.NONE
    assert here.mobility_detail == "disk /tmp/vm.img is not on shared storage"
    assert shared.mobility is Mobility.LIVE


def test_metadata_of_guests_is_read_as_rules_and_tags(lab: LibvirtLab) -> None:
    for host, name in ((1, "web1"), (2, "web2"), (3, "typo")):
        lab.vm(host, name)
    lab.set_metadata(1, "web1", '<guest anti-affinity="web" tags="db prod"/>')
    lab.set_metadata(2, "web2", '<guest anti-affinity="web" nodes="h2,@ssd"/>')
    lab.set_metadata(3, "typo", '<guest antiaffinity="web" pin="true"/>')

    seen = lab.platform(labels={"h3": ("ssd",)}).observe()

    assert [(type(each), each.origin) for each in seen.rules] == [
        (AntiAffinity, "metadata opendrs.anti-affinity"),
        (NodeAffinity, "metadata opendrs.nodes"),
        (Pin, "metadata opendrs.pin"),
    ]
    assert seen.guests[GuestId("web1")].tags == {"db", "prod"}
    assert [guest.mobility for _, guest in sorted(seen.guests.items())] == [
        Mobility.NONE,
        Mobility.LIVE,
        Mobility.LIVE,
    ]
    detail = seen.guests[GuestId("typo")].mobility_detail or ""
    assert detail.startswith("metadata opendrs.antiaffinity: unknown")


def test_metadata_migrates_with_its_guest(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    lab.set_metadata(1, "vm", '<guest pin="true"/>')
    platform = lab.platform()

    task = platform.start(LiveMigration(VM, H1, H2))
    eventually(lambda: lab.running("vm") == (2,), 20, "vm is on h2")
    eventually(
        lambda: platform.status(task).state is TaskState.DONE, 20, "the task ends"
    )

    assert platform.observe().rules == (
        Pin(guests=frozenset({VM}), name="pinned", origin="metadata opendrs.pin"),
    )


def test_uptime_is_known_of_guests_that_start_while_observed(lab: LibvirtLab) -> None:
    lab.vm(1, "old")
    platform = lab.platform(sample=0.1)
    first = platform.observe()
    began = monotonic()
    lab.vm(2, "vm")
    platform.observe()
    last = platform.observe()
    uptime = last.guests[VM].uptime

    assert first.guests[GuestId("old")].uptime is None
    assert last.guests[GuestId("old")].uptime is None
    assert uptime is not None
    assert 0 < uptime < monotonic() - began


def test_read_only_connections_observe_everything(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    lab.set_metadata(1, "vm", '<guest pin="true"/>')
    read_only = {f"h{host}": f"{lab.uri(host)}-ro" for host in HOSTS}
    platform = lab.platform(nodes=read_only)

    seen = platform.observe()

    assert seen.guests[VM].usage.cpu is not None
    assert (seen.guests[VM].uptime, len(seen.rules)) == (None, 1)
    assert seen.nodes[H1].capacity is not None
    task = platform.start(LiveMigration(VM, H1, H2))
    eventually(lambda: platform.status(task).state is TaskState.FAILED, 5, "it fails")
    assert "read only access" in platform.status(task).detail


def test_namesakes_are_two_guests(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    lab.vm(2, "vm")

    seen = lab.platform().observe().guests

    assert set(seen) == {"vm@h1", "vm@h2"}
    assert {guest.mobility for guest in seen.values()} == {Mobility.NONE}
    assert (
        seen[GuestId("vm@h1")].mobility_detail
        == "another guest with the same name is on h2"
    )


def test_guest_running_on_two_hosts_is_reported(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    identity = lab.virsh(1, "domuuid", "vm").strip()
    twin = lab.description("vm").replace(
        "<name>vm</name>", f"<name>vm</name><uuid>{identity}</uuid>"
    )
    lab.define(2, twin, "create")

    seen = lab.platform().observe().guests

    assert set(seen) == {"vm@h1", "vm@h2"}
    assert {guest.mobility for guest in seen.values()} == {Mobility.NONE}
    assert {guest.mobility_detail for guest in seen.values()} == {
        "the guest seems to run on several nodes: h1, h2; stop all but one"
    }


def test_dead_host_is_an_unknown_node(
    lab: LibvirtLab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.vm(1, "vm")
    lab.kill_host(2)

    seen = lab.platform().observe()

    assert seen.nodes[H2].state is NodeState.UNKNOWN
    assert seen.nodes[H2].capacity is None
    assert seen.guests[VM].state is GuestState.RUNNING
    assert "h2: unreachable" in caplog.text


def test_unreachable_cluster_names_every_host(lab: LibvirtLab) -> None:
    nowhere = {"a": "qemu:///system?socket=/nowhere", "b": "qemu+tcp://127.0.0.1:1/"}

    with pytest.raises(PlatformUnavailableError) as caught:
        lab.platform(nodes=nowhere, migration_uris={}).observe()

    assert "a: unreachable" in str(caught.value)
    assert "b: unreachable" in str(caught.value)


def test_missing_permission_is_reported(
    lab: LibvirtLab, capfd: pytest.CaptureFixture[str]
) -> None:
    unprivileged_uri = 65534
    load_library()  # which refuses to be loaded by a process that has changed its user

    os.seteuid(unprivileged_uri)
    try:
        with pytest.raises(PermissionDeniedError, match="h1: permission denied"):
            lab.platform().observe()
    finally:
        os.seteuid(0)

    assert capfd.readouterr().err == ""
