"""Conversion of instances to guests of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from opendrs.config.network_load import NETWORK
from opendrs.model import (
    GIB,
    NO_LOADS,
    Disk,
    Guest,
    GuestKind,
    GuestState,
    LoadAmounts,
    Mobility,
    Node,
    NodeId,
    Usage,
    max_plausible_cpu,
)
from opendrs.platforms.incus.cluster_responses import (
    EVACUATING,
    INTERVAL,
    ClusterResponses,
)
from opendrs.platforms.incus.metrics import cpu_usage
from opendrs.platforms.incus.migration import InstanceJob, running_jobs
from opendrs.platforms.incus.mobility import (
    REBALANCER,
    further_blockers,
    incus_blockers,
    project_blocker,
    rebalancer_owns,
)
from opendrs.platforms.incus.network import instance_load
from opendrs.platforms.incus.responses import (
    FROZEN,
    READY,
    RUNNING,
    STOPPED,
    VIRTUAL_MACHINE,
    Instance,
)
from opendrs.platforms.incus.rules import key_words
from opendrs.platforms.incus.settings import IncusSettings, RebalancerState
from opendrs.platforms.incus.values import (
    guest_id,
    instance_limit,
    last_move,
    parse_size,
    parse_time,
)

_GUEST_STATES = {
    RUNNING: GuestState.RUNNING,
    READY: GuestState.RUNNING,
    FROZEN: GuestState.PAUSED,
    STOPPED: GuestState.STOPPED,
}
_UNREADABLE_INTERVAL = (
    f"{REBALANCER}, if it is on: a restricted certificate cannot read {INTERVAL}; set "
    "rebalancer to on or off"
)

# Size of the root disk of a virtual machine if neither it nor the pool has one.
DEFAULT_ROOT_SIZE = 10 * GIB


class GuestReader:
    """Conversion of instances to guests.

    Args:
        responses: All responses.
        settings: The settings.
        nodes: The nodes.
        shared: For each storage pool, whether all members share it; None if unknown.
    """

    def __init__(
        self,
        responses: ClusterResponses,
        settings: IncusSettings,
        nodes: Mapping[NodeId, Node],
        shared: Mapping[str, bool | None],
    ) -> None:
        self._responses = responses
        self._settings = settings
        self._nodes = nodes
        self._shared = shared
        self._jobs = running_jobs(responses.operations)
        self._members = {each.server_name: each for each in responses.members}
        self._rebalancer = responses.rebalancer(settings.rebalancer)
        self._evacuation = next(
            (
                f"Incus, while {member.server_name} is {member.status.lower()}"
                for member in responses.members
                if member.status in EVACUATING
            ),
            None,
        )

    def build_guest(self, instance: Instance) -> Guest:
        """Return the guest of *instance*, which is on a known node."""
        node = self._nodes[NodeId(instance.location)]
        job = self._jobs.get(instance.key)
        target = self._target(instance, job)
        state = self._state(instance, node, job)
        blockers = self._blockers(instance, node, state)
        mobility = Mobility.COLD if state is GuestState.STOPPED else Mobility.LIVE
        started_at = parse_time(instance.last_used_at)
        return Guest(
            id=guest_id(instance.key),
            node=node.id,
            kind=_kind(instance),
            state=state,
            limit=instance_limit(
                instance, None if node.capacity is None else node.capacity.memory
            ),
            usage=self._usage(instance, node, state),
            uptime=self._uptime(started_at) if state is GuestState.RUNNING else None,
            mobility=Mobility.NONE if blockers else mobility,
            mobility_detail="; ".join(blockers) or None,
            tags=frozenset(key_words(instance.expanded_config, "tags")),
            migrating_to=target,
            migrated_at=last_move(instance),
            managed_by=self._manager(instance),
            lock=self._lock(instance, job, target),
            disks=tuple(self._disks(instance)),
            loads=self._loads(instance, node),
        )

    def _target(self, instance: Instance, job: InstanceJob | None) -> NodeId | None:
        if job is None or job.migration is None or job.target is None:
            return None
        target = NodeId(job.target)
        elsewhere = target in self._nodes and target != instance.location
        return target if elsewhere else None

    def _state(
        self, instance: Instance, node: Node, job: InstanceJob | None
    ) -> GuestState:
        if not node.reachable or instance.key in self._responses.unresponsive:
            return GuestState.UNKNOWN
        state = _GUEST_STATES.get(instance.status_code, GuestState.UNKNOWN)
        # At the end of a live migration it is frozen, then stopped on its source.
        is_migrating = job is not None and job.migration is not None
        return GuestState.RUNNING if is_migrating else state

    def _usage(self, instance: Instance, node: Node, state: GuestState) -> Usage:
        samples = self._responses.metrics.get(node.id)
        if samples is None or state is not GuestState.RUNNING:
            return Usage()
        cpu = cpu_usage(instance.key, samples)
        if cpu is not None and node.capacity is not None:
            cpu = cpu if cpu <= max_plausible_cpu(node.capacity) else None
        figures = samples.last.instances.get(instance.key)
        return Usage(cpu, None if figures is None else figures.memory)

    def _loads(self, instance: Instance, node: Node) -> LoadAmounts:
        """Return the network load, if the capacity of *node* is known."""
        samples = self._responses.metrics.get(node.id)
        if samples is None or NETWORK not in node.load_capacities:
            return NO_LOADS
        return instance_load(instance, samples)

    def _uptime(self, started_at: datetime | None) -> float | None:
        """Return the seconds since it started or arrived on its member."""
        if started_at is None:
            return None
        return max(0.0, (self._responses.taken_at - started_at).total_seconds())

    def _blockers(
        self, instance: Instance, node: Node, state: GuestState
    ) -> tuple[str, ...]:
        """Return why *instance* on *node* cannot migrate in *state*."""
        project = self._responses.projects.get(instance.project)
        others = (
            project_blocker(project, restricted=self._responses.is_restricted),
            self._responses.rejections.get(instance.key),
        )
        return (
            *(
                incus_blockers(instance, self._shared)
                if state is not GuestState.STOPPED
                else ()
            ),
            *further_blockers(instance, self._shared, node),
            *filter(None, others),
        )

    def _manager(self, instance: Instance) -> str | None:
        """Return what decides on the placement of *instance* in place of OpenDRS."""
        if self._evacuation is not None:
            return self._evacuation
        if origin := instance.config.get("volatile.evacuate.origin"):
            return f"Incus, which returns it to {origin}, its member before evacuation"
        if self._rebalancer is RebalancerState.OFF:
            return None
        config = self._members[instance.location].config
        if not rebalancer_owns(instance, config, self._shared):
            return None
        is_on = self._rebalancer is RebalancerState.ON
        return REBALANCER if is_on else _UNREADABLE_INTERVAL

    def _disks(self, instance: Instance) -> Iterator[Disk]:
        """Yield the disks on storage pools.

        The root disk of a virtual machine has a size in any case. That of a volume is
        an attribute of the volume, and is unknown.
        """
        is_machine = instance.type == VIRTUAL_MACHINE
        for _, device in sorted(instance.expanded_devices.items()):
            name = device.get("pool")
            if device.get("type") != "disk" or not name:
                continue
            size = parse_size(device.get("size"))
            if size is None and is_machine and device.get("path") == "/":
                pool = self._responses.pools.get(name)
                default = None if pool is None else pool.config.get("volume.size")
                size = parse_size(default) or DEFAULT_ROOT_SIZE
            yield Disk(storage=name, size=size)

    def _lock(
        self, instance: Instance, job: InstanceJob | None, target: NodeId | None
    ) -> str | None:
        if instance.key in self._responses.unresponsive:
            return "it does not respond to Incus"
        if job is None or target is not None:
            return None
        return job.description


def _kind(instance: Instance) -> GuestKind:
    is_vm = instance.type == VIRTUAL_MACHINE
    return GuestKind.VM if is_vm else GuestKind.CONTAINER
