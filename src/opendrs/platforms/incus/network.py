"""Network traffic of instances, from counters of their interfaces.

Incus reports the interfaces that an instance itself sees: those of a container, or
those that the guest agent of a virtual machine lists. Beside the NICs, these may be
bridges, tunnels and interfaces of nested containers, whose traffic passes the NICs as
well or stays inside. Without agent, Incus reports what the host counts for each NIC,
but not for one that bypasses the host, such as macvlan or SR-IOV, and Incus 6.0 not for
one of the type p2p.

Source:
    Incus 6.0 and 7.0: `incus_network_receive_bytes_total` and
    `incus_network_transmit_bytes_total` of `GET /1.0/metrics`.
"""

from __future__ import annotations

import re

from opendrs.config.network_load import Counters, guest_load, transferred
from opendrs.model import LoadAmounts
from opendrs.platforms.incus.metrics import MemberMetrics, MetricsSamples
from opendrs.platforms.incus.responses import Instance

_LOOPBACK = "lo"
_NIC = re.compile(r"(?:en|eth)[a-z0-9]+")  # names that Linux and systemd give to NICs


def instance_load(instance: Instance, samples: MetricsSamples) -> LoadAmounts:
    """Return the network load of an instance since the oldest sample that counts.

    That is the first one since its arrival on the member or its last restart. Empty if
    there is none, or the last sample does not have the counters of all its NICs.
    """
    amount, begin = None, samples.last.sampled_at
    first = _nic_counters(instance, samples.last)
    for sample in reversed(samples.earlier):
        former = _nic_counters(instance, sample)
        step = transferred(former, first)
        if step is None:
            break
        amount = step + (amount or 0)
        begin, first = sample.sampled_at, former
    return guest_load(amount, samples.last.sampled_at - begin)


def _nic_counters(instance: Instance, sample: MemberMetrics) -> Counters | None:
    """Return the counters of the NICs; None unless those of all are known."""
    figures = sample.instances.get(instance.key)
    if figures is None or figures.network is None:
        return None
    counters = figures.network
    devices = instance.expanded_devices.items()
    nics = {name: device for name, device in devices if device.get("type") == "nic"}
    found: set[str] = set()
    for name, device in nics.items():
        inside = device.get("name") or instance.config.get(f"volatile.{name}.name")
        found.update([each for each in (inside or name, name) if each in counters][:1])
    if len(found) != len(nics):
        found = {name for name in counters if _NIC.fullmatch(name)}
    if len(found) != len(nics):
        return None
    # Only the instance itself reports a loopback interface. Its counters and those of
    # the host have not begun at the same time, and are not compared.
    origin = {_LOOPBACK: 0} if _LOOPBACK in counters else {}
    return {name: counters[name] for name in found} | origin
