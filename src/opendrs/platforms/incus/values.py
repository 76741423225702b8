"""Values in the configuration of instances: amounts, booleans, times, identifiers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from opendrs.model import GuestId, Resources
from opendrs.platforms.incus.responses import VIRTUAL_MACHINE, Instance

DEFAULT_PROJECT = "default"
DEFAULT_VM_MEMORY = 1 << 30  # of a virtual machine without limits.memory
_SIZE = re.compile(r"(\d+)\s*([A-Za-z]*)")
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtpe", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtpe", 1)},
}
_PINNED_CPUS = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
_MAX_PINNED = 1 << 16
_FRACTION = re.compile(r"(\.\d{6})\d+")  # Go writes nanoseconds

InstanceKey = tuple[str, str]  # project and name


def guest_id(key: InstanceKey) -> GuestId:
    """Return the id of an instance: its name, or PROJECT/NAME.

    Names are unique in a project; those in the project default are used as they are.
    """
    project, name = key
    return GuestId(name if project == DEFAULT_PROJECT else f"{project}/{name}")


def instance_key(guest: GuestId) -> InstanceKey:
    """Return project and name of the instance with the id *guest*."""
    project, separator, name = guest.partition("/")
    return (project, name) if separator else (DEFAULT_PROJECT, project)


def key_from_url(url: str) -> InstanceKey | None:
    """Return the instance of a URL such as /1.0/instances/v1?project=web; or None."""
    parts = urlsplit(url)
    words = parts.path.split("/")
    if len(words) < 4 or words[2] not in ("instances", "virtual-machines"):
        return None
    project = parse_qs(parts.query).get("project", [DEFAULT_PROJECT])[0]
    return project, words[3]


def is_true(text: str | None) -> bool:
    """Return True if *text* is one of the words for true of Incus."""
    return (text or "").lower() in ("true", "1", "yes", "on")


def parse_size(text: str | None) -> int | None:
    """Return a size such as 64MiB or 1GB in bytes; None if it is not one."""
    found = _SIZE.fullmatch((text or "").strip())
    if found is None:
        return None
    factor = _UNITS.get(found[2].lower())
    return None if factor is None else int(found[1]) * factor


def is_pinned(text: str | None) -> bool:
    """Return True if limits.cpu is a set of processors of the host, such as 0-3."""
    plain = (text or "").strip()
    return bool(_PINNED_CPUS.fullmatch(plain)) and not plain.isdecimal()


def parse_cpus(text: str | None) -> int | None:
    """Return the number of processors in limits.cpu; None if it is not one."""
    plain = (text or "").strip()
    if plain.isdecimal():
        return int(plain)
    if not is_pinned(plain):
        return None
    count = 0
    for part in plain.split(","):
        first, _, last = part.partition("-")
        count += max(0, int(last or first) - int(first) + 1)
    return count if 0 < count <= _MAX_PINNED else None


def instance_limit(instance: Instance, host_memory: int | None) -> Resources | None:
    """Return the limits of an instance; None unless both are known.

    A virtual machine without limits has one processor and 1 GiB, a container without
    limits.cpu has no limit (0).

    Args:
        instance: The instance.
        host_memory: Memory of its member in bytes, for a limit in percent.
    """
    config, is_vm = instance.expanded_config, instance.type == VIRTUAL_MACHINE
    cpu_text, memory_text = config.get("limits.cpu"), config.get("limits.memory")
    cpus = parse_cpus(cpu_text) if cpu_text else int(is_vm)
    if memory_text and memory_text.endswith("%"):
        percent = memory_text.removesuffix("%").strip()
        memory = (
            host_memory * int(percent) // 100
            if host_memory is not None and percent.isdecimal()
            else None
        )
    elif memory_text:
        memory = parse_size(memory_text)
    else:
        memory = DEFAULT_VM_MEMORY if is_vm else None
    return None if cpus is None or memory is None else Resources(cpus, memory)


def parse_time(text: str) -> datetime | None:
    """Return a time in RFC 3339; None if it is not one, or the zero time."""
    try:
        time = datetime.fromisoformat(_FRACTION.sub(r"\1", text))
    except ValueError:
        return None
    # An instance that never started has the year 1970, or the year 1.
    return time if time.tzinfo is not None and time.year > 1970 else None


def last_move(instance: Instance) -> datetime | None:
    """Return the time in volatile.rebalance.last_move; None if there is none."""
    text = instance.config.get("volatile.rebalance.last_move", "")
    if not text.isdecimal() or len(text) > 11:
        return None
    seconds = int(text)
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
