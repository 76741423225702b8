"""From what is measured to what services take, by the mode of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opendrs.ha import events
from opendrs.ha.documents import ServiceConfig
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.observation import Measurements
from opendrs.ha.turn import Turn
from opendrs.ha.usage import (
    BasicUsage,
    Demand,
    LoadUsage,
    UsageModel,
    UsageUnknownError,
)
from opendrs.model import GIB, NodeId, Resources, Usage
from opendrs.model.resources import LARGEST_AMOUNT, NOTHING
from opendrs.scoring import ImbalanceForm, NodeLoad

BASIC, STATIC, DYNAMIC = "basic", "static", "dynamic"
USUAL_CAPACITY = Resources(24.0, 128 * GIB)  # pve-ha-manager 5.2, dynamic usage
FIELDS = {
    STATIC: ("maxcpu", "maxmem"),
    DYNAMIC: ("cpu", "mem"),
}


class ServiceDemands:
    """Knows what the configured services take, in one mode.

    Args:
        services: The services that are configured.
        known: What is measured of them.
        mode: static, where use is what may be used, or dynamic.
    """

    def __init__(
        self,
        services: Mapping[ServiceId, ServiceConfig],
        known: Measurements,
        mode: str,
    ) -> None:
        self._services = services
        self._known = known
        self._mode = mode

    def of(self, service: ServiceId) -> Demand:
        """Return what *service* takes."""
        limit = self._amount(service, self._known.limits, STATIC)
        if self._mode == STATIC:
            return Demand(limit, limit)
        return Demand(limit, self._amount(service, self._known.usages, DYNAMIC))

    def _amount(
        self, service: ServiceId, amounts: Mapping[ServiceId, Usage], kind: str
    ) -> Resources:
        amount = self.entry(service, amounts)
        known = amount.known
        if known is None:
            cpu, memory = FIELDS[kind]
            raise UsageUnknownError(
                f"missing field `{cpu if amount.cpu is None else memory}`"
            )
        return known

    def entry(self, service: ServiceId, amounts: Mapping[ServiceId, Usage]) -> Usage:
        """Return what *amounts* say of *service*, be it not all.

        Raises:
            UsageUnknownError: They say nothing.
        """
        if service not in self._services or service not in amounts:
            raise UsageUnknownError(
                f"did not get {self._mode} service usage information for '{service}'"
            )
        return amounts[service]


def usage_model(
    mode: str,
    nodes: Sequence[NodeId],
    services: Mapping[ServiceId, ServiceConfig],
    turn: Turn,
    form: ImbalanceForm,
) -> UsageModel:
    """Return an account of *nodes* without any service yet.

    Args:
        mode: basic, static or dynamic. When it is another, or something is not
            known that it needs, services are merely counted.
        nodes: The nodes that are online, in order of name.
        services: The services that are configured.
        turn: The turn in which the round is held.
        form: How uneven loads become one number.
    """
    if mode not in (BASIC, STATIC, DYNAMIC):
        turn.say(events.SchedulerUnknown(mode))
    if mode not in (STATIC, DYNAMIC):
        return BasicUsage(nodes)
    known = turn.seen.measurements
    demands = ServiceDemands(services, known, mode)
    try:
        if mode == STATIC:
            loads = {node: _empty(node, known) for node in nodes}
        else:
            measured = _measured_nodes(services, demands, turn)
            loads = {node: measured[node] for node in nodes}
    except UsageUnknownError as why:
        turn.say(events.SchedulerFellBack(mode, str(why)))
        return BasicUsage(nodes)
    return LoadUsage(loads, demands, measured=mode == DYNAMIC, form=form)


def _empty(node: NodeId, known: Measurements) -> NodeLoad:
    capacity = known.capacities.get(node, Usage())
    cores, memory = int(capacity.cpu or 0), capacity.memory
    if not cores or memory is None:
        what = "memory" if cores else "cpu count"
        raise UsageUnknownError(
            f"static node usage information for '{node}' missing {what}"
        )
    return NodeLoad(Resources(cores, memory), NOTHING)


def _usual(capacity: Usage) -> Resources:
    """Return *capacity*, with what is usual in place of what is not known."""
    return Resources(
        USUAL_CAPACITY.cpu if capacity.cpu is None else capacity.cpu,
        USUAL_CAPACITY.memory if capacity.memory is None else capacity.memory,
    )


def _measured_nodes(
    services: Mapping[ServiceId, ServiceConfig], demands: ServiceDemands, turn: Turn
) -> dict[NodeId, NodeLoad]:
    known = turn.seen.measurements
    measured = {
        service: (
            demands.entry(service, known.usages),
            demands.entry(service, known.limits),
        )
        for service in sorted(services)
    }
    # Proxmox VE asks twice: for the services, and for the nodes they are on.
    for _ in range(2):
        for service, (usage, limit) in measured.items():
            _tell_overcommitted(service, usage, limit, turn)
    capacities = {
        node: _usual(known.capacities[node]) for node in sorted(known.capacities)
    }
    cpu: dict[NodeId, float] = dict.fromkeys(capacities, 0.0)
    memory = dict.fromkeys(capacities, 0)
    for service, (usage, _) in measured.items():
        node = services[service].node
        if service in known.running.get(node, ()):
            cpu[node] += usage.cpu or 0.0
            memory[node] += usage.memory or 0
            if cpu[node] > capacities[node].cpu:
                turn.say(events.Overcommitted("cpu", node))
            if memory[node] > capacities[node].memory:
                turn.say(events.Overcommitted("mem", node))
    return {
        node: NodeLoad(capacity, _most(cpu[node], memory[node]))
        for node, capacity in capacities.items()
    }


def _tell_overcommitted(
    service: ServiceId, usage: Usage, limit: Usage, turn: Turn
) -> None:
    if (usage.cpu or 0) > (limit.cpu or 0):
        turn.say(events.Overcommitted("cpu", service))
    if (usage.memory or 0) > (limit.memory or 0):
        turn.say(events.Overcommitted("mem", service))


def _most(cpu: float, memory: int) -> Resources:
    """Return the amounts, or as much of them as there can be."""
    return Resources(min(cpu, LARGEST_AMOUNT), min(memory, LARGEST_AMOUNT))
