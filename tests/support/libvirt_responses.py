"""Responses of libvirt 9.0 with QEMU 7.2, shortened, and variations of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from opendrs.model import NodeId
from opendrs.platforms.libvirt.responses import DomainResponse, HostResponse, HostSample

SECOND = 1_000_000_000  # nanoseconds

CAPABILITIES = """<capabilities>
  <host>
    <uuid>ab0f46ac-98f4-4caf-a5cd-c52fb493a454</uuid>
    <cpu>
      <arch>x86_64</arch>
      <model>kvm64</model>
      <vendor>AMD</vendor>
      <topology sockets='1' dies='1' cores='2' threads='1'/>
      <pages unit='KiB' size='4'/>
      <pages unit='KiB' size='2048'/>
    </cpu>
  </host>
</capabilities>"""

XML = """<domain type='qemu' id='1'>
  <name>vm1</name>
  <uuid>078ef130-86ac-4feb-85bb-2f43ede21d81</uuid>
  <memory unit='KiB'>16384</memory>
  <currentMemory unit='KiB'>16384</currentMemory>
  <vcpu placement='static'>1</vcpu>
  <os><type arch='x86_64' machine='pc-i440fx-7.2'>hvm</type></os>
  <cpu mode='custom' match='exact' check='full'>
    <model fallback='forbid'>qemu64</model>
  </cpu>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <serial type='file'><source path='/tmp/serial-vm1.log' append='on'/></serial>
    <input type='mouse' bus='ps2'/>
    <memballoon model='none'/>
  </devices>
</domain>"""

STATS = {
    "state.state": 1,
    "state.reason": 1,
    "cpu.time": 7 * SECOND,
    "cpu.user": 6_820_000_000,
    "balloon.current": 16384,
    "balloon.maximum": 16384,
    "balloon.rss": 50144,
    "vcpu.current": 1,
    "vcpu.maximum": 1,
    "dirtyrate.calc_mode": "page-sampling",
}

RUNNING = DomainResponse(uuid="u1", name="vm1", is_active=True, stats=STATS, xml=XML)

# Where nothing has been merged yet.
SHARING = {
    "shm_pages_to_scan": 100,
    "shm_sleep_millisecs": 20,
    "shm_pages_shared": 0,
    "shm_pages_sharing": 0,
    "shm_pages_unshared": 0,
    "shm_pages_volatile": 0,
    "shm_full_scans": 0,
    "shm_merge_across_nodes": 1,
}

# From jobStats on the source, in the fifth pass.
JOB = {
    "operation": 5,
    "time_elapsed": 12000,
    "downtime": 3969,
    "data_total": 34086912,
    "data_processed": 12378779,
    "data_remaining": 19787776,
    "memory_bps": 1067220,
    "memory_dirty_rate": 1020,
    "memory_iteration": 5,
    "memory_page_size": 4096,
    "type": 2,
}


def domain(**changes: object) -> DomainResponse:
    """Return the running guest with other statistics."""
    stats = {key.replace("__", "."): value for key, value in changes.items()}
    return replace(RUNNING, stats={**STATS, **stats})


def network_stats(*counts: tuple[int, int] | None) -> dict[str, object]:
    """Return the statistics of interfaces with bytes received and sent.

    None stands for an interface of the type `user`, of which there are none.
    """
    stats: dict[str, object] = {"net.count": len(counts)}
    for number, each in enumerate(counts):
        if each is not None:
            stats[f"net.{number}.name"] = f"vnet{number}"
            stats[f"net.{number}.rx.bytes"], stats[f"net.{number}.tx.bytes"] = each
    return stats


def with_network(*counts: tuple[int, int] | None) -> DomainResponse:
    """Return the running guest with the counters of interfaces."""
    return replace(RUNNING, stats={**STATS, **network_stats(*counts)})


def with_metadata(elements: str) -> DomainResponse:
    """Return the running guest with *elements*, `o:` being the prefix of OpenDRS."""
    metadata = f"<metadata xmlns:o='urn:opendrs'>{elements}</metadata>"
    return replace(RUNNING, xml=XML.replace("<devices>", f"{metadata}<devices>"))


def incoming(name: str = "vm1", uuid: str = "u1") -> DomainResponse:
    """Return a guest as the target of its migration has it."""
    paused = domain(state__state=3, state__reason=2)
    return replace(paused, name=name, uuid=uuid, is_incoming=True)


def shut_off() -> DomainResponse:
    """Return a guest that is defined and does not run."""
    stats = {**STATS, "state.state": 5, "state.reason": 0}
    for key in ("balloon.rss", "cpu.user"):
        del stats[key]
    return replace(RUNNING, is_active=False, stats=stats)


def sample(
    at: float, domains: Iterable[DomainResponse] = (), busy: int = 0, idle: int = 0
) -> HostSample:
    """Return a reading; *busy* and *idle* in seconds."""
    return HostSample(
        sampled_at=at,
        cpu={
            "kernel": busy * SECOND // 4,
            "user": busy * SECOND * 3 // 4,
            "idle": idle * SECOND,
            "iowait": 0,
        },
        domains={answer.uuid: answer for answer in domains},
    )


def host(
    first: HostSample | None = None, second: HostSample | None = None
) -> HostResponse:
    """Return a host of two cores and 2 GiB, of which 129 MiB are in use."""
    return HostResponse(
        hostname="lab-h1",
        info=("x86_64", 4570, 2, 2596, 1, 1, 2, 1),
        memory={"total": 2097152, "free": 1964548, "buffers": 200, "cached": 308},
        page_sharing=SHARING,
        capabilities=CAPABILITIES,
        first_sample=first or sample(0.0),
        second_sample=second or sample(1.0),
    )


NODE = NodeId("h1")
