"""CPU time, memory and network traffic of instances from `GET /1.0/metrics`.

The state of an instance has no figures for a virtual machine without guest agent, but
the metrics have: CPU time of the threads of QEMU, and its resident memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opendrs.config.network_load import Counters
from opendrs.model import MAX_AMOUNT
from opendrs.platforms.incus.values import InstanceKey

_SAMPLE = re.compile(
    r"incus_(cpu_seconds_total|memory_Mem\w+_bytes|network_\w+_bytes_total)"
    r"\{(.*)\} (\S+)"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_IDLE_MODES = ("idle", "iowait", "steal")
_TOTAL, _AVAILABLE = "memory_MemTotal_bytes", "memory_MemAvailable_bytes"
_DIRECTIONS = ("network_receive_bytes_total", "network_transmit_bytes_total")
_WRAP = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMetrics:
    """Figures of one instance; None for those that are missing.

    Attributes:
        cpu_seconds: CPU time since it started on its member.
        memory: Memory in use, in bytes.
        network: Bytes that each interface has received and sent, by its name; None if
            they are not read.
    """

    cpu_seconds: float | None = None
    memory: int | None = None
    network: Counters | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetrics:
    """Figures of the instances on one member.

    Attributes:
        sampled_at: Monotonic time of the response, in seconds.
        instances: The figures by project and name.
    """

    sampled_at: float
    instances: Mapping[InstanceKey, InstanceMetrics]


@dataclass(frozen=True, slots=True)
class MetricsSamples:
    """Samples of one member.

    Attributes:
        earlier: Those over which CPU use is averaged, the oldest first. Incus has not
            answered them and the last one from the same cache.
        last: The last one.
    """

    earlier: Sequence[MemberMetrics]
    last: MemberMetrics


def parse_metrics(
    text: str, *, network: bool = False
) -> dict[InstanceKey, InstanceMetrics]:
    """Return the figures of all instances.

    Args:
        text: The response, in the format of OpenMetrics.
        network: Read the counters of interfaces as well.
    """
    cpu: dict[InstanceKey, float] = {}
    memory: dict[InstanceKey, dict[str, float]] = {}
    traffic: dict[InstanceKey, dict[str, dict[str, int]]] = {}
    for name, labels, value in _samples(text):
        key = labels.get("project", ""), labels.get("name", "")
        if name == "cpu_seconds_total":
            if labels.get("mode") not in _IDLE_MODES:
                cpu[key] = cpu.get(key, 0.0) + value
        elif name in _DIRECTIONS:
            if network:
                interface = labels.get("device", "")
                counts = traffic.setdefault(key, {}).setdefault(interface, {})
                counts[name] = int(value)
        else:
            memory.setdefault(key, {})[name] = value
    return {
        key: InstanceMetrics(
            # A running instance has used CPU time; 0 is that of a missing source.
            cpu_seconds=cpu.get(key) or None,
            memory=_used(memory.get(key, {})),
            network=_in_both_directions(traffic.get(key, {})) if network else None,
        )
        for key in cpu.keys() | memory.keys()
    }


def cpu_usage(key: InstanceKey, samples: MetricsSamples) -> float | None:
    """Return the cores that an instance used since the oldest sample that counts.

    That is the first one since its arrival on the member or its last restart. None if
    there is none, or the last sample has no figure of it.
    """
    last, begin = samples.last.instances.get(key), None
    if last is None or last.cpu_seconds is None:
        return None
    first = last.cpu_seconds
    for sample in reversed(samples.earlier):
        former = sample.instances.get(key)
        if former is None or former.cpu_seconds is None or former.cpu_seconds > first:
            break
        begin, first = sample.sampled_at, former.cpu_seconds
    if begin is None:
        return None
    return (last.cpu_seconds - first) / (samples.last.sampled_at - begin)


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in text.splitlines():
        if found := _SAMPLE.match(line):
            try:
                value = float(found[3])
            except ValueError:
                continue
            if math.isfinite(value):
                yield found[1], dict(_LABEL.findall(found[2])), value


def _in_both_directions(traffic: Mapping[str, Mapping[str, int]]) -> Counters:
    return {
        interface: sum(counts.values())
        for interface, counts in traffic.items()
        if len(counts) == len(_DIRECTIONS)
    }


def _used(values: Mapping[str, float]) -> int | None:
    """Return total minus available memory, in bytes.

    Without guest agent, available is the limit minus the resident memory of QEMU. That
    may exceed the limit, and then the difference wraps around in 64 bits.
    """
    total, available = values.get(_TOTAL), values.get(_AVAILABLE)
    if not total or available is None:
        return None
    used = int(total) - int(available)
    if used < 0:
        used += _WRAP
    return used if 0 < used <= MAX_AMOUNT else None
