"""Preconditions of the migration of one guest, and what they allow.

Source:
    `GET /nodes/{node}/qemu/{vmid}/migrate` and `lxc`, recorded from Proxmox VE 9.2. The
    response names every other node, also allowed ones; a node is not allowed only if
    its entry has content. Containers spell the keys with dashes. Proxmox VE 8 names
    the allowed nodes of stopped guests only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opendrs.platforms.proxmox.responses import LocalDiskRow, parse_object, parse_rows
from opendrs.platforms.proxmox.settings import ProxmoxSettings
from opendrs.transport.http_json import get_mapping

_LIVE = "live-migration"
_KNOWN_REASONS = ("unavailable_storages", "blocking_ha_resources")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """Preconditions of the migration of one guest.

    Attributes:
        allowed_nodes: Nodes that the guest may migrate to; None if not reported.
        missing_storages: Storages that a node lacks, by the node.
        blocking_resources: HA resources with anti-affinity, by the node they are on.
        local_disks: Disks on local storage, by volume: the bytes of each, or None.
        local_media: CD images on local storage.
        other_reasons: Further reasons why a node is not allowed, by the node.
        local_devices: Devices that the guest uses and that cannot migrate live.
        has_connection_state: Whether connection tracking state can be migrated.
        explains_nodes: Whether the reasons of nodes that are not allowed are reported;
            for containers they are not.
        error: Why the preconditions could not be determined, such as a lock.
    """

    allowed_nodes: frozenset[str] | None = None
    missing_storages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blocking_resources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_reasons: Mapping[str, str] = field(default_factory=dict)
    local_disks: Mapping[str, int | None] = field(default_factory=dict)
    local_media: tuple[str, ...] = ()
    local_devices: tuple[str, ...] = ()
    has_connection_state: bool = False
    explains_nodes: bool = True
    error: str | None = None

    @property
    def blockers(self) -> tuple[str, ...]:
        """Return why the guest cannot migrate to any node, even with copied disks."""
        blockers = [] if self.error is None else [self.error]
        blockers += [
            f"it uses the device {each} of its node" for each in self.local_devices
        ]
        blockers += [f"medium {each} is on local storage" for each in self.local_media]
        return tuple(blockers)

    def target_blocker(self, target: str, settings: ProxmoxSettings) -> str | None:
        """Return why the guest cannot migrate to *target*; None if it can."""
        if storages := self.storages_missing_on(target, settings):
            return f"{target} has no storage {', '.join(storages)}"
        if blocking := self.blocking_resources.get(target):
            return f"{', '.join(blocking)} must not be on the same node"
        if reason := self.other_reasons.get(target):
            return f"{target}: {reason}"
        if self.allowed_nodes is not None and target not in self.allowed_nodes:
            return f"{target} is not an allowed node"
        return None

    def excludes(self, node: str, settings: ProxmoxSettings) -> bool:
        """Return True if the storages of the guest exclude *node*, another one."""
        if settings.target_storage is not None:
            return False
        if self.explains_nodes or self.allowed_nodes is None:
            return bool(self.storages_missing_on(node, settings))
        return node not in self.allowed_nodes

    def storages_missing_on(
        self, node: str, settings: ProxmoxSettings
    ) -> tuple[str, ...]:
        """Return the storages of the guest that *node* lacks."""
        if settings.target_storage is not None:
            return ()
        return self.missing_storages.get(node, ())


def parse_preconditions(data: object, request: str) -> Preconditions:
    """Return the preconditions in a response, of a virtual machine or a container.

    Raises:
        UnexpectedResponseError: The response has another form.
    """
    document = {
        key.replace("-", "_"): value
        for key, value in parse_object(data, request).items()
    }
    allowed = document.get("allowed_nodes")
    not_allowed = document.get("not_allowed_nodes")
    entries = not_allowed if isinstance(not_allowed, dict) else {}
    disks = parse_rows(LocalDiskRow, document.get("local_disks") or [], request)
    return Preconditions(
        allowed_nodes=None
        if not isinstance(allowed, list)
        else frozenset(map(str, allowed)),
        missing_storages=_by_node(entries, "unavailable_storages", None),
        blocking_resources=_by_node(entries, "blocking_ha_resources", "sid"),
        other_reasons=_other_reasons(entries),
        local_disks={disk.volid or "?": disk.size for disk in disks if not disk.cdrom},
        local_media=tuple(disk.volid or "?" for disk in disks if disk.cdrom),
        local_devices=(
            *_texts(document.get("local_resources")),
            *_mapped_devices(document),
        ),
        has_connection_state=document.get("has_dbus_vmstate") in (1, "1"),
        explains_nodes=bool(entries),
    )


def _mapped_devices(document: Mapping[str, object]) -> tuple[str, ...]:
    """Return the mapped devices that are not reported to migrate live."""
    return tuple(
        name
        for name in _texts(document.get("mapped_resources"))
        if str(get_mapping(document, "mapped_resource_info", name).get(_LIVE)) != "1"
    )


def _other_reasons(entries: Mapping[str, object]) -> dict[str, str]:
    found = {
        node: [
            f"{label} {items}"
            for label, items in get_mapping(entry).items()
            if label.replace("-", "_") not in _KNOWN_REASONS and items
        ]
        for node, entry in entries.items()
    }
    return {node: "; ".join(reasons) for node, reasons in found.items() if reasons}


def _by_node(
    entries: Mapping[str, object], name: str, key: str | None
) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for node, entry in entries.items():
        values = entry.items() if isinstance(entry, dict) else ()
        for label, items in values:
            if label.replace("-", "_") == name and isinstance(items, list) and items:
                found[node] = tuple(
                    str(item.get(key)) if key and isinstance(item, dict) else str(item)
                    for item in items
                )
    return found


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
