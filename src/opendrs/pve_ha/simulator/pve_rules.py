"""Translation of the rules of a snapshot to those of the HA manager."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from opendrs.model import (
    Affinity,
    AntiAffinity,
    DomainAffinity,
    GuestId,
    GuestPriority,
    MutualAntiAffinity,
    NodeAffinity,
    Pin,
    Rule,
    TagExclusion,
    rule_guests,
)
from opendrs.pve_ha.config.rules import (
    NodeAffinityRule,
    PveAffinity,
    PveRule,
    ResourceAffinityRule,
    RuleSet,
    format_rules,
)
from opendrs.pve_ha.simulator.pve_names import PveNames, unique_name
from opendrs.pve_ha.states import ServiceId

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]+", re.ASCII)


@dataclass(slots=True)
class TranslatedRules:
    """Rules of the HA manager, and notes about untranslated ones.

    Attributes:
        rules: Rules by name.
        notes: Rules and guests without a counterpart, for the operator.
    """

    rules: dict[str, PveRule] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the rules as the text of a file."""
        order = {name: at for at, name in enumerate(self.rules, start=1)}
        return format_rules(RuleSet(rules=dict(self.rules), order=order))


def translate_rules(rules: Iterable[Rule], names: PveNames) -> TranslatedRules:
    """Return *rules* as rules of the HA manager.

    Args:
        rules: Rules of a snapshot.
        names: Names of nodes and services. Guests without a service are unknown to the
            HA manager, so no rule applies to them.
    """
    result = TranslatedRules()
    for number, rule in enumerate(rules, start=1):
        translated = _translate(rule, names)
        if isinstance(translated, str):
            result.notes.append(f'rule "{rule}" ignored: {translated}')
        else:
            result.rules[unique_name(_name(rule, number), result.rules)] = translated
            result.notes += _unmanaged_guests(rule, names)
    return result


def _translate(rule: Rule, names: PveNames) -> PveRule | str:
    """Return the translated *rule*, or the reason for which it has none."""
    if isinstance(rule, Pin | TagExclusion | GuestPriority):
        kind = (
            "priorities of guests"
            if isinstance(rule, GuestPriority)
            else "rules that forbid every migration of a guest"
        )
        return f"the HA manager of Proxmox VE does not support {kind}"
    services = _services(rule.guests, names)
    if isinstance(rule, NodeAffinity):
        if not services:
            return "none of its guests is HA-managed"
        lowest = min((0, *rule.nodes.values()))
        nodes = {names.nodes[node]: p - lowest for node, p in rule.nodes.items()}
        return NodeAffinityRule(resources=services, nodes=nodes, strict=rule.strict)
    if reason := _unsupported(rule):
        return f"the HA manager of Proxmox VE {reason}"
    assert isinstance(rule, Affinity | AntiAffinity)  # noqa: S101 - others are not
    if len(services) < 2:
        return "fewer than two of its guests are HA-managed"
    return ResourceAffinityRule(resources=services, affinity=_pve_affinity(rule))


def _unsupported(
    rule: Affinity | DomainAffinity | AntiAffinity | MutualAntiAffinity,
) -> str | None:
    if isinstance(rule, DomainAffinity):
        return "has no affinity within a domain"
    if isinstance(rule, MutualAntiAffinity):
        return "has no anti-affinity between two groups"
    if not rule.strict:
        return "supports only strict rules between guests"
    if isinstance(rule, AntiAffinity) and not rule.is_pairwise:
        return "has no limits of guests per node or domain"
    return None


def _pve_affinity(rule: Affinity | AntiAffinity) -> PveAffinity:
    return PveAffinity.POSITIVE if isinstance(rule, Affinity) else PveAffinity.NEGATIVE


def _services(guests: Iterable[GuestId], names: PveNames) -> frozenset[ServiceId]:
    return frozenset(
        names.services[guest] for guest in guests if guest in names.services
    )


def _unmanaged_guests(rule: Rule, names: PveNames) -> Iterator[str]:
    unknown = sorted(rule_guests(rule) - names.services.keys())
    if unknown:
        yield f"{rule}: does not apply to guests without HA: {', '.join(unknown)}"


def _name(rule: Rule, number: int) -> str:
    fit = _UNFIT.sub("-", rule.name).strip("-_")
    if len(fit) < 2 or not fit[0].isalpha():
        return f"rule-{number}"
    return fit
