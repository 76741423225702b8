"""Disks in the configuration of a guest, and those that can be moved.

Source:
    `GET /nodes/{node}/qemu/{vmid}/config` and `lxc`, recorded from Proxmox VE 9.2: a
    disk is a property string such as `local:100/vm-100-disk-0.raw,size=32G`. According
    to its documentation, `parent` names the last snapshot of the guest, and
    `protection` disables the removal of disks. Disks with snapshots are not moved if
    the original is to be deleted. Whether the EFI disk and the TPM state of a running
    virtual machine can be moved depends on the version. They are small and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from opendrs.model import MAX_AMOUNT, Disk

_KEY = re.compile(r"(scsi|virtio|ide|sata|mp|unused)\d+|efidisk0|tpmstate0|rootfs")
_MOVABLE = re.compile(r"(scsi|virtio|ide|sata|mp)\d+|rootfs")
_VOLUME = re.compile(r"(?:(?:file|volume)=)?(?P<storage>[A-Za-z][\w.\-]*):.+")
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_disks(configuration: Mapping[str, object]) -> tuple[Disk, ...]:
    """Return the disks of a guest on storages; without CD images and bind mounts.

    Those that can be moved are named by their keys. In the configuration it is not
    visible whether a container runs, which prevents it.
    """
    is_movable = "parent" not in configuration and not _is_protected(configuration)
    disks = []
    for key, storage, options in _volumes(configuration):
        sizes = [each.removeprefix("size=") for each in options if "size=" in each]
        disk = Disk(
            storage=storage,
            size=_size(sizes[0]) if sizes else None,
            name=key if is_movable and _MOVABLE.fullmatch(key) else None,
        )
        disks.append(disk)
    return tuple(disks)


def disk_storages(configuration: Mapping[str, object]) -> dict[str, str]:
    """Return the storage of each disk of a guest, by its key."""
    return {key: storage for key, storage, _ in _volumes(configuration)}


def _volumes(
    configuration: Mapping[str, object],
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the key, the storage and the options of each disk."""
    for key, value in sorted(configuration.items()):
        if not _KEY.fullmatch(key) or not isinstance(value, str):
            continue
        volume, *options = value.split(",")
        match = _VOLUME.fullmatch(volume)
        if match is not None and "media=cdrom" not in options:
            yield key, match["storage"], options


def _is_protected(configuration: Mapping[str, object]) -> bool:
    return str(configuration.get("protection", 0)) != "0"


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    size = int(float(match["number"]) * _UNITS[match["unit"]])
    return size if size <= MAX_AMOUNT else None
