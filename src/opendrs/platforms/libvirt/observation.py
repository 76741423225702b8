"""Observation of all hosts of a cluster in parallel."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Event

from opendrs.config.network_load import with_capacity, with_guest_traffic
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    PlatformError,
    PlatformUnavailableError,
)
from opendrs.model import Guest, Node, NodeId, Rule, Snapshot
from opendrs.platforms.libvirt.client import LibvirtConnection, query_all
from opendrs.platforms.libvirt.guest_location import is_settled, locate_guests
from opendrs.platforms.libvirt.metadata import metadata_rules
from opendrs.platforms.libvirt.queries import read_host, read_sample
from opendrs.platforms.libvirt.reading import (
    GuestDescription,
    build_guest,
    build_node,
    describe_guest,
    host_identity,
)
from opendrs.platforms.libvirt.responses import DomainResponse, HostResponse, HostSample
from opendrs.platforms.libvirt.settings import LibvirtSettings
from opendrs.platforms.libvirt.uptime import StartTimes
from opendrs.rules import with_chosen

logger = logging.getLogger(__name__)

_MAX_READS = 3  # attempts until the samples of all hosts are consistent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LibvirtClusterReader:
    """Reader of snapshots of one cluster.

    Attributes:
        name: The name of the cluster.
        hosts: The connections to its hosts.
        settings: Its settings.
    """

    name: str
    hosts: Mapping[NodeId, LibvirtConnection]
    settings: LibvirtSettings
    _unreachable: set[NodeId] = field(default_factory=set)
    _start_times: StartTimes = field(default_factory=StartTimes)

    def read_snapshot(self, rules: tuple[Rule, ...]) -> Snapshot:
        """Return a snapshot, with the placement rules *rules* and those of metadata.

        Raises:
            ConfigurationError: Two URIs lead to the same host, or a URI is invalid.
            PlatformUnavailableError: All hosts are unreachable.
            PlatformError: A reachable host reported an error.
        """
        responses = self._read_consistent()
        _require_distinct_hosts(responses)
        nodes = self._nodes(responses)
        descriptions = [
            describe_guest(location, nodes)
            for location in locate_guests(_domains(responses))
        ]
        guests = tuple(self._guests(descriptions, responses, nodes))
        stated = ((each.location.id, each.metadata) for each in descriptions)
        return with_chosen(
            Snapshot(
                taken_at=datetime.now(UTC),  # noqa: TID251 -- the time of the samples
                nodes=with_guest_traffic(nodes, guests),
                guests={guest.id: guest for guest in guests},
                rules=(*rules, *metadata_rules(stated, nodes)),
            )
        )

    def _read_consistent(self) -> dict[NodeId, HostResponse]:
        responses = self._query_hosts(self.hosts, self._sample_twice)
        for _ in range(_MAX_READS - 1):
            if _is_consistent(responses):
                break
            reachable_hosts = {node: self.hosts[node] for node in responses}
            first_samples = {
                node: response.first_sample for node, response in responses.items()
            }
            responses = self._query_hosts(
                reachable_hosts, partial(_sample_again, first_samples)
            )
        return responses

    def _query_hosts(
        self,
        hosts: Mapping[NodeId, LibvirtConnection],
        call: Callable[[LibvirtConnection], HostResponse],
    ) -> dict[NodeId, HostResponse]:
        responses, errors = query_all(hosts, call)
        if not responses:
            raise PlatformUnavailableError(
                f"{self.name}: all hosts unreachable", *map(str, errors.values())
            )
        self._log_unreachable(responses, errors)
        return responses

    def _log_unreachable(
        self, responses: Iterable[NodeId], errors: Mapping[NodeId, PlatformError]
    ) -> None:
        """Log an unreachable host once, until it responds again."""
        self._unreachable.difference_update(responses)
        for node in errors.keys() - self._unreachable:
            logger.warning("%s; its guests are not observed", errors[node])
        self._unreachable.update(errors)

    def _sample_twice(self, host: LibvirtConnection) -> HostResponse:
        first = host.query(read_sample)
        Event().wait(self.settings.sample)
        return host.query(partial(read_host, first_sample=first))

    def _nodes(self, responses: Mapping[NodeId, HostResponse]) -> dict[NodeId, Node]:
        labels = self.settings.labels
        nodes = {
            node: build_node(node, responses.get(node), labels.get(node, ()))
            for node in self.hosts
        }
        return with_capacity(nodes, self.settings.network_capacity)

    def _guests(
        self,
        descriptions: Sequence[GuestDescription],
        responses: Mapping[NodeId, HostResponse],
        nodes: Mapping[NodeId, Node],
    ) -> Iterator[Guest]:
        sampled_at = {
            node: response.second_sample.sampled_at
            for node, response in responses.items()
        }
        locations = [each.location for each in descriptions]
        self._start_times.update(locations, sampled_at)
        for each in descriptions:
            node = each.location.node
            yield build_guest(
                each,
                responses[node],
                nodes[node],
                self.settings.shared_storage,
                self._start_times.uptime(each.location, sampled_at[node]),
            )


def _sample_again(
    first_samples: Mapping[NodeId, HostSample], host: LibvirtConnection
) -> HostResponse:
    return host.query(partial(read_host, first_sample=first_samples[host.node]))


def _domains(
    responses: Mapping[NodeId, HostResponse],
) -> dict[NodeId, Iterable[DomainResponse]]:
    return {
        node: response.second_sample.domains.values()
        for node, response in responses.items()
    }


def _is_consistent(responses: Mapping[NodeId, HostResponse]) -> bool:
    """Return True if no guest seems to be on two hosts, or on none."""
    before = {
        uuid
        for response in responses.values()
        for uuid in response.first_sample.domains
    }
    after = {
        uuid
        for response in responses.values()
        for uuid in response.second_sample.domains
    }
    return before <= after and is_settled(_domains(responses))


def _require_distinct_hosts(responses: Mapping[NodeId, HostResponse]) -> None:
    known: dict[tuple[str, str], NodeId] = {}
    for node, response in responses.items():
        if (other := known.setdefault(host_identity(response), node)) != node:
            raise ConfigurationError(
                f"nodes.{node}: same host as nodes.{other}; each host needs one name",
                code=DiagnosticCode.DUPLICATE_NAME,
            )
