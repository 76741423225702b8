"""Mobility of instances, and the part that the rebalancer of Incus owns.

Source:
    The filters of the rebalancer of Incus 6.0.4 and 7.0.2, and the rejections of an
    explicit move, both observed on running clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opendrs.model import Guest, Node
from opendrs.platforms.incus.responses import VIRTUAL_MACHINE, Instance, Project
from opendrs.platforms.incus.values import is_pinned, is_true

REBALANCER = "the rebalancer of Incus"
SCHEDULER = "scheduler.instance"
SCHEDULED = "all"  # its default
RESTRICTED = "restricted"
_SPECIAL_SOURCES = ("cloud-init:config", "agent:config")
_NETWORK_TYPES = ("bridged", "macvlan", "sriov", "physical")
_MOBILE_TYPES = ("none", "tpm")


def incus_blockers(
    instance: Instance, shared: Mapping[str, bool | None]
) -> tuple[str, ...]:
    """Return why Incus itself would not migrate an instance live.

    Args:
        instance: The instance.
        shared: For each storage pool, whether all members share it; None if unknown.
    """
    config = instance.expanded_config
    if instance.type != VIRTUAL_MACHINE:
        return ("containers do not migrate live",)
    evacuate = config.get("cluster.evacuate", "auto") or "auto"
    if evacuate == "live-migrate":  # overrides the checks of Incus
        return ()
    if evacuate != "auto":
        return (f"cluster.evacuate is {evacuate}",)
    blockers = list(_device_blockers(instance, shared))
    if not is_true(config.get("migration.stateful")):
        blockers.append("migration.stateful is not true")
    return tuple(blockers)


def further_blockers(
    instance: Instance, shared: Mapping[str, bool | None], node: Node
) -> Iterator[str]:
    """Yield why an instance does not migrate that Incus itself would migrate.

    The limits decide about the copy of a disk on a local pool, if that is known.

    Args:
        instance: The instance.
        shared: As for `incus_blockers`.
        node: Its member.
    """
    config = instance.expanded_config
    if is_pinned(config.get("limits.cpu")):
        yield "limits.cpu pins it to processors of its member"
    if is_true(config.get("security.sev")):
        yield "security.sev encrypts its memory for its member"
    listed = {storage.id for storage in node.storages or ()}
    for name, device in _disks(instance):
        pool = device.get("pool", "")
        if not pool or shared.get(pool):
            continue
        if shared.get(pool) is None:
            yield f"disk {name} is on the pool {pool}, which may be local"
        elif pool not in listed:
            yield f"disk {name} is on the local pool {pool}, unknown on {node.id}"


def unseen_pools(instance: Instance, guest: Guest | None) -> list[str]:
    """Return the pools with disks of *instance* that the limits did not decide about.

    Args:
        instance: The instance as it is now.
        guest: The same in the last snapshot; None if it was not in it.
    """
    if guest is None:
        return []
    now = {device["pool"] for _, device in _disks(instance) if device.get("pool")}
    return sorted(now - {disk.storage for disk in guest.disks or ()})


def project_blocker(project: Project | None, *, restricted: bool) -> str | None:
    """Return why Incus rejects moves to a chosen member; None if it does not.

    Args:
        project: The project; None if it cannot be read.
        restricted: True if the certificate is restricted to projects.
    """
    if project is None or not restricted or not is_true(project.config.get(RESTRICTED)):
        return None
    if project.config.get("restricted.cluster.target", "block") == "allow":
        return None
    return f"restricted.cluster.target is block in the project {project.name}"


def rebalancer_owns(
    instance: Instance,
    member_config: Mapping[str, str],
    shared: Mapping[str, bool | None],
) -> bool:
    """Return True if the rebalancer of Incus moves this instance when it is on.

    Args:
        instance: The instance.
        member_config: Configuration of the member that it is on.
        shared: As for `incus_blockers`.
    """
    scheduled = member_config.get(SCHEDULER, SCHEDULED) == SCHEDULED
    return scheduled and not incus_blockers(instance, shared)


def _disks(instance: Instance) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name, device in instance.expanded_devices.items():
        if device.get("type") == "disk":
            yield name, device


def _device_blockers(
    instance: Instance, shared: Mapping[str, bool | None]
) -> Iterator[str]:
    for name, device in instance.expanded_devices.items():
        kind = device.get("type", "")
        if kind == "disk":
            mobile = _is_mobile_disk(device, shared)
        elif kind == "nic":
            mobile = _is_mobile_network(device)
        else:
            mobile = kind in _MOBILE_TYPES
        if not mobile:
            yield f"its device {name} ({kind or 'of unknown type'}) stays on its member"


def _is_mobile_disk(
    device: Mapping[str, str], shared: Mapping[str, bool | None]
) -> bool:
    if device.get("path") == "/" or device.get("source") in _SPECIAL_SOURCES:
        return True
    return shared.get(device.get("pool", "")) is True


def _is_mobile_network(device: Mapping[str, str]) -> bool:
    if device.get("nictype") == "ovn":
        return True
    managed = bool(device.get("network"))
    return managed and device.get("nictype", "bridged") in _NETWORK_TYPES
