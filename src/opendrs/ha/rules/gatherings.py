"""Keep-together rules that belong to one another, and where rules overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules.rule import ResourceAffinityRule, Rule


@dataclass(slots=True)
class Gathering:
    """Keep-together rules with services in common.

    Attributes:
        names: The rules, in the order they joined.
        services: All their services.
    """

    names: list[str]
    services: set[ServiceId]


def gatherings(rules: Mapping[str, ResourceAffinityRule]) -> list[Gathering]:
    """Return keep-together *rules* as gatherings.

    Rules join in the order of their smallest service, each the first gathering
    it overlaps. A rule between two gatherings does not merge them: Proxmox VE
    goes through the rules once.
    """
    result: list[Gathering] = []
    of: dict[ServiceId, int] = {}
    for name in sorted(rules, key=lambda name: (min(rules[name].resources), name)):
        services = rules[name].resources
        joined = min((of[s] for s in services if s in of), default=len(result))
        if joined == len(result):
            result.append(Gathering([], set()))
        result[joined].names.append(name)
        result[joined].services |= services
        for service in services:
            of[service] = min(joined, of.get(service, joined))
    return result


class Overlaps:
    """Finds the rules that bind some of given services."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._by_service: dict[ServiceId, list[str]] = {}
        for name, rule in rules.items():
            for service in rule.resources:
                self._by_service.setdefault(service, []).append(name)

    def of(self, services: Iterable[ServiceId]) -> list[str]:
        """Return the names of the rules that bind any of *services*, sorted."""
        by_service = self._by_service
        return sorted({n for service in services for n in by_service.get(service, ())})
