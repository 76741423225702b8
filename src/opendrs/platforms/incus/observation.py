"""Observation of a cluster: all reads of one snapshot, and what is kept between them.

A member that does not respond is a node in the state unknown. One instance whose
process hangs delays the list of all instances for ever. After a timeout, the instances
are therefore read one by one, and those that do not respond are taken from the
observation before.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from threading import Event, Lock
from time import monotonic

from opendrs.errors import (
    PermissionDeniedError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import Rule, Snapshot
from opendrs.platforms.incus import queries
from opendrs.platforms.incus.client import IncusClient
from opendrs.platforms.incus.cluster_responses import ClusterResponses
from opendrs.platforms.incus.metrics import MemberMetrics, MetricsSamples
from opendrs.platforms.incus.reading import build_snapshot
from opendrs.platforms.incus.responses import (
    HostResources,
    Instance,
    MemberState,
    ServerInfo,
    StoragePool,
)
from opendrs.platforms.incus.settings import IncusSettings, RebalancerState
from opendrs.platforms.incus.values import InstanceKey, guest_id

logger = logging.getLogger(__name__)

STUCK_AFTER = 900.0  # seconds after which figures that never change are reported
MIN_SAMPLE_AGE = 10.0  # seconds; Incus answers from its cache for 8 s
METRICS_WINDOW = 300.0  # seconds over which CPU use and traffic are averaged
UNREACHABLE = ("Offline", "Blocked")
TRUST_COMMAND = "incus config trust add-certificate"


class UnchangedFigures:
    """Figures of members that do not change, as with a cache that never expires."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[object, float]] = {}
        self._reported: set[tuple[str, str]] = set()

    def is_stuck(self, member: str, source: str, figures: object, now: float) -> bool:
        """Return True if *figures* have been the same for a long time.

        The first time, a warning is logged.

        Args:
            member: The member.
            source: The path that they are from.
            figures: The figures.
            now: Monotonic time in seconds.
        """
        key = member, source
        last, since = self._last.get(key, (None, now))
        if last != figures:
            self._last[key] = figures, now
            self._reported.discard(key)
            return False
        if now - since < STUCK_AFTER:
            return False
        if key not in self._reported:
            self._reported.add(key)
            logger.warning(
                "%s: %s: figures have not changed for %.0f s",
                member,
                source,
                now - since,
            )
        return True


class MetricsHistory:
    """Samples of the metrics of members, over which figures are averaged."""

    def __init__(self) -> None:
        self._samples: dict[str, list[MemberMetrics]] = {}

    def __bool__(self) -> bool:
        return bool(self._samples)

    def add(self, samples: Mapping[str, MemberMetrics]) -> dict[str, MetricsSamples]:
        """Add the *samples*, and return each with the earlier ones in the window."""
        result: dict[str, MetricsSamples] = {}
        for name, last in samples.items():
            kept = [
                each
                for each in self._samples.get(name, ())
                if last.sampled_at - each.sampled_at <= METRICS_WINDOW
            ]
            earlier = [
                each
                for each in kept
                if last.sampled_at - each.sampled_at >= MIN_SAMPLE_AGE
            ]
            result[name] = MetricsSamples(earlier, last)
            if len(earlier) == len(kept):
                kept.append(last)
            self._samples[name] = kept
        return result


class IncusClusterReader:
    """Reader of snapshots of one cluster.

    Args:
        client: The client.
        settings: The settings.
    """

    def __init__(self, client: IncusClient, settings: IncusSettings) -> None:
        self._client = client
        self._settings = settings
        self._lock = Lock()
        self._figures = UnchangedFigures()
        self._unreachable: set[str] = set()
        self._reported: set[str] = set()
        self._resources: dict[str, HostResources] = {}
        self._metrics = MetricsHistory()
        self._pools: dict[str, StoragePool] = {}
        self._instances: dict[InstanceKey, Instance] = {}

    def read_snapshot(
        self, rules: Sequence[Rule], rejections: Mapping[InstanceKey, str]
    ) -> Snapshot:
        """Return a snapshot of the cluster.

        Args:
            rules: Placement rules of the operator.
            rejections: Why the last move of an instance was rejected.

        Raises:
            PlatformUnavailableError: No member responds.
            PermissionDeniedError: The certificate is not trusted.
            UnsupportedError: The server is not a cluster of Incus.
        """
        with self._lock:
            responses = self._read(rejections)
        if (
            responses.is_restricted
            and self._settings.rebalancer is RebalancerState.AUTO
        ):
            self._report_once(
                "the configuration of the cluster is not visible to a restricted "
                "certificate; set rebalancer to on or off"
            )
        return build_snapshot(responses, self._settings, rules)

    def _read(self, rejections: Mapping[InstanceKey, str]) -> ClusterResponses:
        server = require_cluster(queries.read_server(self._client))
        members = queries.read_members(self._client)
        responding = [m.server_name for m in members if m.status not in UNREACHABLE]
        states = self._read_states(responding)
        instances, unresponsive = self._read_instances()
        return ClusterResponses(
            taken_at=datetime.now(UTC),  # noqa: TID251 -- the time of the responses
            server=server,
            members=members,
            instances=instances,
            operations=queries.read_operations(self._client),
            projects=queries.read_projects(self._client),
            pools=self._read_pools(instances),
            states=states,
            stale_resources=self._read_resources(states),
            resources=dict(self._resources),
            metrics=self._read_metrics(server, states, instances),
            unresponsive=unresponsive,
            rejections=rejections,
        )

    def _read_states(self, members: Sequence[str]) -> dict[str, MemberState]:
        states, errors = queries.query_all(
            lambda name: queries.read_member_state(self._client, name),
            members,
            self._settings.max_requests,
        )
        for name in errors.keys() - self._unreachable:
            logger.warning("%s: state unknown: %s", name, errors[name])
        self._unreachable = set(errors)
        now = monotonic()
        for name, state in states.items():
            figures = (state.sysinfo.load_averages, state.sysinfo.free_ram)
            self._figures.is_stuck(name, "state", figures, now)
        return states

    def _read_resources(self, states: Mapping[str, MemberState]) -> frozenset[str]:
        """Read the resources and return the members whose resources never change."""
        found, _ = queries.query_all(
            lambda name: queries.read_resources(self._client, name),
            states,
            self._settings.max_requests,
        )
        self._resources.update(found)
        now = monotonic()
        return frozenset(
            name
            for name, resources in found.items()
            if self._figures.is_stuck(
                name, "resources", (resources.memory.used, resources.load), now
            )
        )

    def _read_metrics(
        self,
        server: ServerInfo,
        states: Mapping[str, MemberState],
        instances: Sequence[Instance],
    ) -> dict[str, MetricsSamples]:
        by_member: dict[str, set[str]] = {name: set() for name in states}
        for instance in instances:
            if instance.location in by_member:
                project = "" if server.config else instance.project
                by_member[instance.location].add(project)
        used = {name: sorted(each) for name, each in by_member.items() if each}
        samples = self._read_member_metrics(used)
        if samples and not self._metrics and self._settings.sample > 0:
            self._metrics.add(samples)
            Event().wait(max(self._settings.sample, MIN_SAMPLE_AGE))
            samples = self._read_member_metrics(used)
        return self._metrics.add(samples)

    def _read_member_metrics(
        self, projects: Mapping[str, Sequence[str]]
    ) -> dict[str, MemberMetrics]:
        network = self._settings.network_capacity is not None
        found, errors = queries.query_all(
            lambda name: queries.read_metrics(
                self._client, name, projects[name], network=network
            ),
            projects,
            self._settings.max_requests,
        )
        for name, error in errors.items():
            if isinstance(error, PermissionDeniedError):
                self._report_once(f"{name}: metrics: {error}")
        return found

    def _read_pools(self, instances: Sequence[Instance]) -> dict[str, StoragePool]:
        """Return the pools that instances use; each is read once."""
        names = {
            device["pool"]
            for instance in instances
            for device in instance.expanded_devices.values()
            if device.get("pool")
        }
        found, _ = queries.query_all(
            lambda name: queries.read_pool(self._client, name),
            sorted(names - self._pools.keys()),
            self._settings.max_requests,
        )
        self._pools.update(found)
        return dict(self._pools)

    def _read_instances(self) -> tuple[tuple[Instance, ...], frozenset[InstanceKey]]:
        """Return the managed instances, and those that did not respond."""
        unresponsive: frozenset[InstanceKey] = frozenset()
        try:
            instances = queries.read_instances(self._client)
        except PlatformUnavailableError as error:
            logger.warning("instances are read one by one: %s", error)
            instances, unresponsive = self._read_one_by_one()
        managed = tuple(
            sorted(
                (each for each in instances if self._settings.manages(each.project)),
                key=lambda each: each.key,
            )
        )
        self._instances = {each.key: each for each in managed}
        return managed, unresponsive

    def _read_one_by_one(
        self,
    ) -> tuple[tuple[Instance, ...], frozenset[InstanceKey]]:
        found, errors = queries.query_all(
            lambda key: queries.read_instance(self._client, key, attempts=1),
            queries.read_instance_keys(self._client),
            self._settings.max_requests,
        )
        unresponsive = {
            key
            for key, error in errors.items()
            if isinstance(error, PlatformUnavailableError)
        }
        known = {
            key: self._instances[key] for key in unresponsive & set(self._instances)
        }
        for key in sorted(unresponsive - known.keys()):
            logger.warning("%s: not observed: %s", guest_id(key), errors[key])
        return (*found.values(), *known.values()), frozenset(known)

    def _report_once(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            logger.warning("%s", message)


def require_cluster(server: ServerInfo) -> ServerInfo:
    """Return *server* if it is a cluster of Incus that trusts the certificate.

    Raises:
        PermissionDeniedError: It does not trust the certificate.
        UnsupportedError: It is another server, or not a cluster.
    """
    if server.environment is None:
        raise PermissionDeniedError(
            "the cluster does not trust the certificate; run on a member: "
            f"{TRUST_COMMAND} --restricted --projects=default FILE"
        )
    if server.environment.server != "incus":
        raise UnsupportedError(f"expected Incus, got {server.environment.server}")
    if not server.environment.server_clustered:
        raise UnsupportedError(
            f"{server.environment.server_name}: expected a member of a cluster"
        )
    return server
