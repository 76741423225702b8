"""Servers that cannot migrate live at the moment, or at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opendrs.platforms.openstack.responses import Server, ServerGroup

MIGRATING = "migrating"
# Extra specs of flavors with devices or memory that belong to a host.
_HOST_DEVICES: Mapping[str, str] = {
    "pci_passthrough:alias": "a PCI device of its node is passed through",
    "resources:VGPU": "it has a virtual GPU of its node",
    "hw:pmem": "it has persistent memory on its node",
    "hw:mem_encryption": "its memory is encrypted by the CPU of its node",
}


def lock_of(server: Server, *, is_followed: bool) -> str | None:
    """Return the operation or the person that locks *server*; None if none.

    Args:
        server: The server.
        is_followed: Whether it migrates to a node of the snapshot.
    """
    if server.task_state is not None and not (
        is_followed and server.task_state == MIGRATING
    ):
        return server.task_state
    if server.locked:
        reason = f": {server.locked_reason}" if server.locked_reason else ""
        return f"locked by its owner{reason}"
    return None


def live_blockers(server: Server) -> Iterator[str]:
    """Yield the reasons why Nova cannot migrate a running server live."""
    if server.vm_state == "stopped":
        yield "it is stopped, and Nova migrates only running servers live"
    elif server.vm_state not in ("active", "paused"):
        yield f"vm_state is {server.vm_state}"
    extra_specs = {} if server.flavor is None else server.flavor.extra_specs
    for key, reason in _HOST_DEVICES.items():
        value = extra_specs.get(key, "")
        if value and value.lower() not in ("0", "false"):
            yield reason


def affinity_blockers(
    groups: Iterable[ServerGroup], servers: Iterable[Server]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the servers that affinity keeps on their host, with the reason.

    Nova checks the policy for each server by itself: a host without other members of
    the group is refused. A group that shares one host can therefore never leave it.
    """
    host_of = {each.id: each.host for each in servers if each.host is not None}
    for group in groups:
        members = [each for each in group.members if each in host_of]
        if group.policy != "affinity" or len(members) < 2:
            continue
        if len({host_of[each] for each in members}) == 1:
            reason = (
                f"Nova refuses to move a member of server group {group.name} "
                "(affinity) away from the others"
            )
            yield from ((each, (reason,)) for each in members)
