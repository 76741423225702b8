"""Mobility of a guest, read from its domain description."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from opendrs.platforms.libvirt.mobility import migration_blockers, requires_same_cpu
from support.libvirt_responses import XML

SHARED = ("/srv/vms", "/dev/san/")


def blockers_of(device: str = "", beside: str = "") -> tuple[str, ...]:
    text = XML.replace("</devices>", f"{device}</devices>{beside}")
    return migration_blockers(ET.fromstring(text), SHARED)  # noqa: S314


def disk(source: str, kind: str = "file", device: str = "disk") -> str:
    return f"<disk type='{kind}' device='{device}'>{source}<target dev='vda'/></disk>"


def test_guest_without_blockers_is_mobile() -> None:
    assert blockers_of() == ()


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (
            disk("<source file='/var/lib/a.img'/>"),
            "disk /var/lib/a.img is not on shared storage",
        ),
        (
            disk("<source file='/srv/vms2/a.img'/>"),
            "disk /srv/vms2/a.img is not on shared storage",
        ),
        (
            disk("<source file='/srv/vms/../a.img'/>"),
            "disk /srv/vms/../a.img is not on shared storage",
        ),
        (
            disk("<source file='/iso/a.iso' index='1'/>", device="cdrom"),
            "medium /iso/a.iso is not on shared storage",
        ),
        (
            disk("<source dev='/dev/sda'/>", "block"),
            "disk /dev/sda is not on shared storage",
        ),
        (
            disk("<source pool='default' volume='a'/>", "volume"),
            "disk default:a is not on shared storage",
        ),
        (
            disk("<source type='pci' namespace='1'/>", "nvme"),
            "disk of the host is not on shared storage",
        ),
        (
            "<hostdev mode='subsystem' type='pci'/><hostdev type='pci'/>",
            "a pci device of its node is passed through",
        ),
        (
            "<interface type='hostdev'/>",
            "a network device of its node is passed through",
        ),
        (
            "<filesystem type='mount'><source dir='/data'/></filesystem>",
            "it shares the directory /data with its node",
        ),
        (
            "<shmem name='x'/>",
            "it shares memory with another process on its node",
        ),
        (
            "<memory model='nvdimm'/>",
            "it has persistent memory on its node",
        ),
        (
            "<tpm><backend type='passthrough'/></tpm>",
            "the TPM of its node is passed through",
        ),
    ],
)
def test_passed_through_device_is_a_blocker(device: str, message: str) -> None:
    assert blockers_of(device) == (message,)


@pytest.mark.parametrize(
    "device",
    [
        disk("<source file='/srv/vms/a.img'/>"),
        disk("<source dev='/dev/san/a'/>", "block"),
        disk("<source protocol='rbd' name='pool/a'/>", "network"),
        disk("", device="cdrom"),
        disk("<source index='2'/>", device="cdrom"),
        "<interface type='bridge'><source bridge='br0'/></interface>",
        "<tpm><backend type='emulator'/></tpm>",
    ],
)
def test_shared_storage_is_no_blocker(device: str) -> None:
    assert blockers_of(device) == ()


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        (
            "<cputune><vcpupin vcpu='0' cpuset='1'/></cputune>",
            "it is pinned to CPUs of its node",
        ),
        (
            "<numatune><memory mode='strict' nodeset='0'/></numatune>",
            "it is pinned to NUMA nodes of its node",
        ),
        (
            "<launchSecurity type='sev'/>",
            "its memory is encrypted by the CPU of its node",
        ),
    ],
)
def test_other_blockers_are_named(beside: str, message: str) -> None:
    assert blockers_of(beside=beside) == (message,)


def test_processors_in_the_element_vcpu_are_a_pin() -> None:
    text = XML.replace("<vcpu placement", "<vcpu cpuset='0-1' placement")

    assert migration_blockers(ET.fromstring(text), ()) == (  # noqa: S314
        "it is pinned to CPUs of its node",
    )


def test_limits_of_processor_time_are_no_pin() -> None:
    assert blockers_of(beside="<cputune><shares>1024</shares></cputune>") == ()


@pytest.mark.parametrize(
    ("mode", "bound"),
    [("host-passthrough", True), ("host-model", False), ("custom", False)],
)
def test_only_a_processor_passed_through_must_be_the_same(
    mode: str, *, bound: bool
) -> None:
    text = XML.replace("mode='custom'", f"mode='{mode}'")

    assert requires_same_cpu(ET.fromstring(text)) is bound  # noqa: S314


def test_a_container_cannot_be_migrated() -> None:
    text = XML.replace("type='qemu'", "type='lxc'")

    assert migration_blockers(ET.fromstring(text), ()) == (  # noqa: S314
        "libvirt cannot migrate containers",
    )
