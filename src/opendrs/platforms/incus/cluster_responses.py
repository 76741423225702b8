"""All responses of one observation of an Incus cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from opendrs.platforms.incus.metrics import MetricsSamples
from opendrs.platforms.incus.responses import (
    HostResources,
    Instance,
    Member,
    MemberState,
    Operation,
    Project,
    ServerInfo,
    StoragePool,
)
from opendrs.platforms.incus.settings import RebalancerState
from opendrs.platforms.incus.values import InstanceKey

INTERVAL = "cluster.rebalance.interval"
EVACUATING = ("Evacuating", "Restoring")


def is_interval_on(config: Mapping[str, str]) -> bool:
    """Return True if the rebalancer of Incus runs; 0 and less turn it off."""
    interval = config.get(INTERVAL, "0")
    return not interval.startswith("-") and bool(interval.strip("0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterResponses:
    """All responses of one observation.

    Attributes:
        taken_at: Time of the observation.
        server: Description of the cluster.
        members: Its members.
        instances: The managed instances.
        operations: All operations that can be read.
        projects: The projects that can be read, by name.
        pools: The storage pools that can be read, by name.
        states: State of each member that responded.
        resources: Resources of each member that ever responded.
        stale_resources: Members whose resources never change.
        metrics: Metrics of each member that responded, and those before.
        unresponsive: Instances that did not respond, from an earlier observation.
        rejections: Why the last move of an instance was rejected.
    """

    taken_at: datetime
    server: ServerInfo
    members: Sequence[Member]
    instances: Sequence[Instance]
    operations: Sequence[Operation] = ()
    projects: Mapping[str, Project] = field(default_factory=dict)
    pools: Mapping[str, StoragePool] = field(default_factory=dict)
    states: Mapping[str, MemberState] = field(default_factory=dict)
    resources: Mapping[str, HostResources] = field(default_factory=dict)
    stale_resources: frozenset[str] = frozenset()
    metrics: Mapping[str, MetricsSamples] = field(default_factory=dict)
    unresponsive: frozenset[InstanceKey] = frozenset()
    rejections: Mapping[InstanceKey, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Return the version of the member that responded."""
        return (
            ""
            if self.server.environment is None
            else (self.server.environment.server_version)
        )

    @property
    def is_restricted(self) -> bool:
        """Return True if the certificate is restricted to projects.

        The configuration of the server, which always has the address of the cluster, is
        then not visible.
        """
        return not self.server.config

    def rebalancer(self, setting: RebalancerState) -> RebalancerState:
        """Return the state of the rebalancer; AUTO if it cannot be read."""
        if setting is not RebalancerState.AUTO or self.is_restricted:
            return setting
        is_on = is_interval_on(self.server.config)
        return RebalancerState.ON if is_on else RebalancerState.OFF

    def shared_pools(self) -> dict[str, bool | None]:
        """Return for each storage pool whether all members share it."""
        drivers = (
            self.server.environment.storage_supported_drivers
            if self.server.environment is not None
            else ()
        )
        remote: dict[str, bool] = {each.name: each.remote for each in drivers}
        return {name: remote.get(pool.driver) for name, pool in self.pools.items()}
