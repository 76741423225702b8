"""Looking at all hosts of a cluster at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Event

from opendrs.errors import ConfigurationError, PlatformError, PlatformUnavailableError
from opendrs.model import Guest, GuestId, Node, NodeId, Rule, Snapshot
from opendrs.platforms.libvirt.answers import DomainAnswer, HostAnswer, Sample
from opendrs.platforms.libvirt.client import Host, asked_at_once
from opendrs.platforms.libvirt.places import places, settled
from opendrs.platforms.libvirt.questions import host_answer, sample
from opendrs.platforms.libvirt.reading import guest_of, identity, node_of
from opendrs.platforms.libvirt.settings import LibvirtSettings

logger = logging.getLogger(__name__)

_LOOKS = 3  # hosts are not read at one instant; moving guests need another look


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observer:
    """Looks at the hosts of one cluster.

    Attributes:
        name: What the operator calls the cluster.
        hosts: Its hosts.
        settings: What the operator said about them.
    """

    name: str
    hosts: Mapping[NodeId, Host]
    settings: LibvirtSettings
    _silent: set[NodeId] = field(default_factory=set)

    def snapshot(self, rules: tuple[Rule, ...]) -> Snapshot:
        """Return the cluster as it is now.

        Raises:
            ConfigurationError: Two URIs lead to one host, or one to none.
            PlatformUnavailableError: Not one host can be reached.
            PlatformError: A host was reached and refused.
        """
        answers = self._answers()
        _require_different_hosts(answers)
        nodes = self._nodes(answers)
        return Snapshot(
            taken_at=datetime.now(UTC),  # noqa: TID251 -- when the hosts were asked
            nodes=nodes,
            guests=self._guests(answers, nodes),
            rules=rules,
        )

    def _answers(self) -> dict[NodeId, HostAnswer]:
        answers = self._asked(self.hosts, self._both_samples)
        for _ in range(_LOOKS - 1):
            if _consistent(answers):
                break
            there = {node: self.hosts[node] for node in answers}
            firsts = {node: answer.first for node, answer in answers.items()}
            answers = self._asked(there, partial(_another_sample, firsts))
        return answers

    def _asked(
        self, hosts: Mapping[NodeId, Host], question: Callable[[Host], HostAnswer]
    ) -> dict[NodeId, HostAnswer]:
        answers, silent = asked_at_once(hosts, question)
        if not answers:
            raise PlatformUnavailableError(
                f"no host of {self.name} answers", *map(str, silent.values())
            )
        self._report(answers, silent)
        return answers

    def _report(
        self, answers: Iterable[NodeId], silent: Mapping[NodeId, PlatformError]
    ) -> None:
        """Log that a host does not answer, once until it answers again."""
        self._silent.difference_update(answers)
        for node in silent.keys() - self._silent:
            logger.warning("%s; its guests are not seen", silent[node])
        self._silent.update(silent)

    def _both_samples(self, host: Host) -> HostAnswer:
        first = host.ask(sample)
        Event().wait(self.settings.sample)
        return host.ask(partial(host_answer, first=first))

    def _nodes(self, answers: Mapping[NodeId, HostAnswer]) -> dict[NodeId, Node]:
        labels = self.settings.labels
        return {
            node: node_of(node, answers.get(node), labels.get(node, ()))
            for node in self.hosts
        }

    def _guests(
        self, answers: Mapping[NodeId, HostAnswer], nodes: Mapping[NodeId, Node]
    ) -> dict[GuestId, Guest]:
        shared = self.settings.shared_storage
        return {
            place.id: guest_of(place, answers[place.node], nodes[place.node], shared)
            for place in places(_domains(answers))
        }


def _another_sample(firsts: Mapping[NodeId, Sample], host: Host) -> HostAnswer:
    return host.ask(partial(host_answer, first=firsts[host.node]))


def _domains(
    answers: Mapping[NodeId, HostAnswer],
) -> dict[NodeId, Iterable[DomainAnswer]]:
    return {node: answer.second.domains.values() for node, answer in answers.items()}


def _consistent(answers: Mapping[NodeId, HostAnswer]) -> bool:
    """Return whether no guest seems to be at two places, or lost on the way."""
    before = {uuid for answer in answers.values() for uuid in answer.first.domains}
    after = {uuid for answer in answers.values() for uuid in answer.second.domains}
    return before <= after and settled(_domains(answers))


def _require_different_hosts(answers: Mapping[NodeId, HostAnswer]) -> None:
    known: dict[tuple[str, str], NodeId] = {}
    for node, answer in answers.items():
        if (other := known.setdefault(identity(answer), node)) != node:
            raise ConfigurationError(
                f"nodes.{node}: leads to the same host as nodes.{other}"
            )
