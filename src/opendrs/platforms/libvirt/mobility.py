"""Mobility of a guest, determined from its domain XML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element

_PIN_ELEMENTS = ("cputune/vcpupin", "cputune/emulatorpin", "cputune/iothreadpin")


def migration_blockers(
    domain: Element, shared_paths: tuple[str, ...]
) -> tuple[str, ...]:
    """Return all reasons why the guest cannot migrate.

    Args:
        domain: The domain XML of the guest.
        shared_paths: Paths below which all nodes have the same files.
    """
    blockers = [blocker for check in _CHECKS for blocker in check(domain)]
    return (*_local_disks(domain, shared_paths), *dict.fromkeys(blockers))


def requires_same_cpu(domain: Element) -> bool:
    """Return True if the guest uses the CPU model of its node."""
    cpu = domain.find("cpu")
    return cpu is not None and cpu.get("mode") in {"host-passthrough", "maximum"}


def _local_disks(domain: Element, shared_paths: tuple[str, ...]) -> Iterator[str]:
    for disk in domain.iterfind("devices/disk"):
        source = disk.find("source")
        if source is None or disk.get("type") == "network":
            continue
        location = _disk_location(source)
        if location and not _is_below(location, shared_paths):
            yield f"{_disk_kind(disk)} {location} is not on shared storage"


def _disk_location(source: Element) -> str:
    """Return the file, device or volume of a disk; empty if it has none."""
    if pool := source.get("pool"):
        return f"{pool}:{source.get('volume', '')}"
    keys = ("file", "dev", "dir", "path")
    location = next((source.get(key, "") for key in keys if source.get(key)), "")
    return location or ("of the host" if source.attrib.keys() - {"index"} else "")


def _disk_kind(disk: Element) -> str:
    return "disk" if disk.get("device", "disk") in {"disk", "lun"} else "medium"


def _is_below(path: str, prefixes: tuple[str, ...]) -> bool:
    if ".." in path.split("/"):
        return False
    return any(f"{path}/".startswith(f"{prefix.rstrip('/')}/") for prefix in prefixes)


def _passthrough_devices(domain: Element) -> Iterator[str]:
    for device in domain.iterfind("devices/hostdev"):
        kind = device.get("type") or device.get("mode") or "host"
        yield f"a {kind} device of its node is passed through"
    for interface in domain.iterfind("devices/interface"):
        if interface.get("type") in {"hostdev", "vdpa"}:
            yield "a network device of its node is passed through"
    if domain.find("devices/tpm/backend[@type='passthrough']") is not None:
        yield "the TPM of its node is passed through"


def _shared_directories(domain: Element) -> Iterator[str]:
    for directory in domain.iterfind("devices/filesystem"):
        source = directory.find("source")
        path = "" if source is None else f" {source.get('dir', '')}".rstrip()
        yield f"it shares the directory{path} with its node"


def _local_memory(domain: Element) -> Iterator[str]:
    if domain.find("devices/shmem") is not None:
        yield "it shares memory with another process on its node"
    for module in domain.iterfind("devices/memory"):
        if module.get("model") in {"nvdimm", "virtio-pmem"}:
            yield "it has persistent memory on its node"
    if domain.find("launchSecurity") is not None:
        yield "its memory is encrypted by the CPU of its node"


def _cpu_pins(domain: Element) -> Iterator[str]:
    vcpu = domain.find("vcpu")
    pinned = any(domain.find(path) is not None for path in _PIN_ELEMENTS)
    if pinned or (vcpu is not None and vcpu.get("cpuset")):
        yield "it is pinned to CPUs of its node"
    if domain.find("numatune//*[@nodeset]") is not None:
        yield "it is pinned to NUMA nodes of its node"


def _containers(domain: Element) -> Iterator[str]:
    if domain.get("type") in {"lxc", "openvz"}:
        yield "libvirt cannot migrate containers"


_CHECKS: tuple[Callable[[Element], Iterator[str]], ...] = (
    _containers,
    _passthrough_devices,
    _shared_directories,
    _local_memory,
    _cpu_pins,
)
