"""Observation of real hosts and guests by the libvirt platform."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

import pytest

from integration.libvirt_lab import HOSTS, LibvirtLab, eventually
from opendrs.errors import PermissionDeniedError, PlatformUnavailableError
from opendrs.model import GuestId, GuestState, Mobility, NodeId, NodeState, Resources
from opendrs.platforms.libvirt.client import load_library

pytestmark = [pytest.mark.shared, pytest.mark.lab]

H1, H2 = NodeId("h1"), NodeId("h2")
VM = GuestId("vm")
MIB = 1 << 20


def test_hosts_and_guests_have_capacity_and_usage(lab: LibvirtLab) -> None:
    lab.vm(1, "busy", duty=50)
    lab.vm(2, "idle", memory=24)
    eventually(lambda: len(lab.heartbeats("busy")) > 2, 20, "busy has started")

    began, spent = monotonic(), lab.cpu_seconds(1, "busy")
    seen = lab.platform(sample=2.0).observe()
    # A guest that the machine starves uses less than its half of a processor.
    cores = (lab.cpu_seconds(1, "busy") - spent) / (monotonic() - began)
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
    assert cores > 0.1
    assert busy.usage.cpu == pytest.approx(cores, abs=0.15)
    assert idle.usage.cpu == pytest.approx(0.0, abs=0.1)
    assert node.usage.cpu == pytest.approx(busy.usage.cpu, abs=0.4)
    assert node.usage.memory is not None
    assert busy.usage.memory is not None
    assert 16 * MIB < busy.usage.memory < node.usage.memory < 1024 * MIB


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
