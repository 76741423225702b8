"""Demand of services and load of nodes in each mode of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opendrs.metrics import ImbalanceMetric, NodeLoad
from opendrs.model import GIB, MAX_AMOUNT, NO_RESOURCES, NodeId, Resources, Usage
from opendrs.pve_ha import log_events
from opendrs.pve_ha.manager.node_usage import (
    BasicUsage,
    LoadUsage,
    ServiceDemand,
    UsageModel,
    UsageUnknownError,
)
from opendrs.pve_ha.observation import ObservedMetrics
from opendrs.pve_ha.process_step import ProcessStep
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import ServiceConfig

BASIC, STATIC, DYNAMIC = "basic", "static", "dynamic"
DEFAULT_CAPACITY = Resources(24.0, 128 * GIB)  # pve-ha-manager 5.2, dynamic usage
METRIC_FIELDS = {
    STATIC: ("maxcpu", "maxmem"),
    DYNAMIC: ("cpu", "mem"),
}


class MetricsDemandSource:
    """Demand of the configured services in one mode.

    Args:
        services: Configured services.
        metrics: Measured values.
        mode: static, where usage equals the limits, or dynamic.
    """

    def __init__(
        self,
        services: Mapping[ServiceId, ServiceConfig],
        metrics: ObservedMetrics,
        mode: str,
    ) -> None:
        self._services = services
        self._metrics = metrics
        self._mode = mode

    def demand_of(self, service: ServiceId) -> ServiceDemand:
        """Return the demand of *service*."""
        limit = self._known_amount(service, self._metrics.limits, STATIC)
        if self._mode == STATIC:
            return ServiceDemand(limit, limit)
        return ServiceDemand(
            limit, self._known_amount(service, self._metrics.usages, DYNAMIC)
        )

    def _known_amount(
        self, service: ServiceId, amounts: Mapping[ServiceId, Usage], kind: str
    ) -> Resources:
        amount = self.usage_of(service, amounts)
        known = amount.resources
        if known is None:
            cpu, memory = METRIC_FIELDS[kind]
            raise UsageUnknownError(
                f"missing field `{cpu if amount.cpu is None else memory}`"
            )
        return known

    def usage_of(self, service: ServiceId, amounts: Mapping[ServiceId, Usage]) -> Usage:
        """Return the entry of *service* in *amounts*, which may be incomplete.

        Raises:
            UsageUnknownError: There is no entry.
        """
        if service not in self._services or service not in amounts:
            raise UsageUnknownError(
                f"did not get {self._mode} service usage information for '{service}'"
            )
        return amounts[service]


def create_usage_model(
    mode: str,
    nodes: Sequence[NodeId],
    services: Mapping[ServiceId, ServiceConfig],
    step: ProcessStep,
    imbalance_metric: ImbalanceMetric,
) -> UsageModel:
    """Return a usage model of *nodes* without any service.

    Args:
        mode: basic, static or dynamic. For another mode, or if a required value is
            unknown, services are only counted.
        nodes: Online nodes, in order of name.
        services: Configured services.
        step: Step of the process in which the round runs.
        imbalance_metric: Form of the imbalance.
    """
    if mode not in (BASIC, STATIC, DYNAMIC):
        step.log(log_events.SchedulerUnknown(mode))
    if mode not in (STATIC, DYNAMIC):
        return BasicUsage(nodes)
    metrics = step.observation.metrics
    demands = MetricsDemandSource(services, metrics, mode)
    try:
        if mode == STATIC:
            loads = {node: _empty_load(node, metrics) for node in nodes}
        else:
            measured = _measured_loads(services, demands, step)
            loads = {node: measured[node] for node in nodes}
    except UsageUnknownError as error:
        step.log(log_events.SchedulerFallback(mode, str(error)))
        return BasicUsage(nodes)
    return LoadUsage(
        loads, demands, measured=mode == DYNAMIC, imbalance_metric=imbalance_metric
    )


def _empty_load(node: NodeId, metrics: ObservedMetrics) -> NodeLoad:
    capacity = metrics.capacities.get(node, Usage())
    cores, memory = int(capacity.cpu or 0), capacity.memory
    if not cores or memory is None:
        missing = "memory" if cores else "cpu count"
        raise UsageUnknownError(
            f"static node usage information for '{node}' missing {missing}"
        )
    return NodeLoad(Resources(cores, memory), NO_RESOURCES)


def _with_defaults(capacity: Usage) -> Resources:
    """Return *capacity* with defaults for unknown values."""
    return Resources(
        DEFAULT_CAPACITY.cpu if capacity.cpu is None else capacity.cpu,
        DEFAULT_CAPACITY.memory if capacity.memory is None else capacity.memory,
    )


def _measured_loads(
    services: Mapping[ServiceId, ServiceConfig],
    demands: MetricsDemandSource,
    step: ProcessStep,
) -> dict[NodeId, NodeLoad]:
    metrics = step.observation.metrics
    measured = {
        service: (
            demands.usage_of(service, metrics.usages),
            demands.usage_of(service, metrics.limits),
        )
        for service in sorted(services)
    }
    # Proxmox VE computes this twice: for the services and for their nodes.
    for _ in range(2):
        for service, (usage, limit) in measured.items():
            _log_overcommitted(service, usage, limit, step)
    capacities = {
        node: _with_defaults(metrics.capacities[node])
        for node in sorted(metrics.capacities)
    }
    cpu: dict[NodeId, float] = dict.fromkeys(capacities, 0.0)
    memory = dict.fromkeys(capacities, 0)
    for service, (usage, _) in measured.items():
        node = services[service].node
        if service in metrics.running.get(node, ()):
            cpu[node] += usage.cpu or 0.0
            memory[node] += usage.memory or 0
            if cpu[node] > capacities[node].cpu:
                step.log(log_events.Overcommitted("cpu", node))
            if memory[node] > capacities[node].memory:
                step.log(log_events.Overcommitted("mem", node))
    return {
        node: NodeLoad(capacity, _clamp(cpu[node], memory[node]))
        for node, capacity in capacities.items()
    }


def _log_overcommitted(
    service: ServiceId, usage: Usage, limit: Usage, step: ProcessStep
) -> None:
    if (usage.cpu or 0) > (limit.cpu or 0):
        step.log(log_events.Overcommitted("cpu", service))
    if (usage.memory or 0) > (limit.memory or 0):
        step.log(log_events.Overcommitted("mem", service))


def _clamp(cpu: float, memory: int) -> Resources:
    """Return the amounts, limited to the largest allowed amount."""
    return Resources(min(cpu, MAX_AMOUNT), min(memory, MAX_AMOUNT))
