"""Diagnostics for unknown names and invalid combinations in a drill file.

They use the plain values of a document rather than validated ones, so that an invalid
number does not hide an unknown name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from opendrs.config import Diagnostic, DiagnosticCode, KeyPath, suggestion
from opendrs.config.parsing import as_mapping
from opendrs.escapes import repr_value
from opendrs.pve_ha.simulator.file_format.assertions import (
    GLOBAL_ASSERTIONS,
    GUEST_ASSERTIONS,
    NODE_ASSERTIONS,
    assertion_names,
)
from opendrs.pve_ha.simulator.file_format.events import EVENT_KINDS
from opendrs.pve_ha.states import PveNodeState, ServiceState

_ONE_OF = {
    "files": ("readable", "consistent"),
    "limit": ("cpu", "memory"),
    "usage": ("cpu", "memory"),
    "fail": ("starts", "moves", "never_stops"),
}
_PREFIXES = ("vm:", "ct:")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names that exist.

    Attributes:
        nodes: Nodes of the snapshot.
        guests: Guests of the snapshot.
        services: Guests that are services, and services that events add.
    """

    nodes: Collection[str]
    guests: Collection[str]
    services: Collection[str]


def reference_diagnostics(
    document: Mapping[str, object], known: KnownNames
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each unknown name and invalid combination."""
    for index, event in enumerate(_tables(document.get("events"))):
        yield from _event_diagnostics(("events", index), event, known)
    for index, entry in enumerate(_tables(document.get("expect"))):
        yield from _expectation_diagnostics(("expect", index), entry, known)
    for name, service in as_mapping(document.get("services")).items():
        at = ("services", name)
        if name not in known.guests:
            yield _unknown_name(at, "guest", name, known.guests)
        fails = as_mapping(as_mapping(service).get("fails"))
        yield from _node_diagnostics((*at, "fails"), fails, ("node",), known)


def added_guests(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the guests that the events of *document* add."""
    for event in _tables(document.get("events")):
        for name in _names(as_mapping(event.get("add")).get("guest")):
            if name.startswith(_PREFIXES):
                yield name


def _event_diagnostics(
    at: KeyPath, event: Mapping[str, object], known: KnownNames
) -> Iterator[Diagnostic]:
    verbs = sorted(EVENT_KINDS & event.keys())
    if len(verbs) > 1:
        message = f"expected one kind of event, got {', '.join(verbs)}"
        message += "; use one event each"
        yield Diagnostic(at, message, code=DiagnosticCode.INCONSISTENT)
    if not verbs and not event.keys() - {"at"}:
        message = "expected a kind of event, such as power or crash"
        yield Diagnostic(at, message, code=DiagnosticCode.MISSING_KEY)
    for verb in verbs:
        fields = as_mapping(event[verb])
        if verb in _ONE_OF and not fields.keys() & set(_ONE_OF[verb]):
            message = f"expected {' or '.join(_ONE_OF[verb])}"
            yield Diagnostic((*at, verb), message, code=DiagnosticCode.MISSING_KEY)
        places = ("node",) if verb == "version" else ("node", "to")
        yield from _node_diagnostics((*at, verb), fields, places, known)
        if verb == "add":
            yield from _addition_diagnostics((*at, verb, "guest"), fields)
        yield from _service_diagnostics(
            (*at, verb, "guest"), fields.get("guest"), known
        )
    for index, rule in enumerate(_tables(event.get("rules"))):
        yield from _rule_diagnostics((*at, "rules", index), rule, known)


def _addition_diagnostics(
    at: KeyPath, fields: Mapping[str, object]
) -> Iterator[Diagnostic]:
    for name in _names(fields.get("guest")):
        if not name.startswith(_PREFIXES):
            message = f"expected vm:NAME or ct:NAME, got {repr_value(name)}"
            yield Diagnostic(at, message, code=DiagnosticCode.INVALID_VALUE)


def _rule_diagnostics(
    at: KeyPath, rule: Mapping[str, object], known: KnownNames
) -> Iterator[Diagnostic]:
    guests = {*known.guests, *known.services}
    for name in _names(rule.get("guests")):
        if name not in guests:
            yield _unknown_name((*at, "guests"), "guest", name, guests)
    for name in as_mapping(rule.get("nodes")):
        if name not in known.nodes:
            yield _unknown_name((*at, "nodes"), "node", name, known.nodes)


def _expectation_diagnostics(
    at: KeyPath, entry: Mapping[str, object], known: KnownNames
) -> Iterator[Diagnostic]:
    yield from _node_diagnostics(at, entry, ("node", "runs_on"), known)
    for field in ("guest", "together", "apart"):
        yield from _service_diagnostics((*at, field), entry.get(field), known)
    if "guest" in entry and "node" in entry:
        message = "expected a guest or a node, got both"
        yield Diagnostic(at, message, code=DiagnosticCode.INCONSISTENT)
        return
    subject = "guest" if "guest" in entry else "node" if "node" in entry else None
    assertions = {
        "guest": GUEST_ASSERTIONS,
        "node": NODE_ASSERTIONS,
        None: GLOBAL_ASSERTIONS,
    }[subject]
    known_assertions = {*GUEST_ASSERTIONS, *NODE_ASSERTIONS, *GLOBAL_ASSERTIONS}
    named = assertion_names(entry) & known_assertions
    if not named and not assertion_names(entry):
        message = f"expected one of {', '.join(sorted(assertions))}"
        yield Diagnostic(at, message, code=DiagnosticCode.MISSING_KEY)
    for field in sorted(named - assertions.keys()):
        scope = f"for a {subject}" if subject else "without a guest or a node"
        message = f"not allowed {scope}"
        yield Diagnostic((*at, field), message, code=DiagnosticCode.INCONSISTENT)
    yield from _state_diagnostics(at, entry, subject)


def _state_diagnostics(
    at: KeyPath, entry: Mapping[str, object], subject: str | None
) -> Iterator[Diagnostic]:
    state, words = (
        entry.get("state"),
        PveNodeState if subject == "node" else ServiceState,
    )
    if isinstance(state, str) and subject and state not in set(words):
        known = [word.value for word in words]
        yield Diagnostic(
            (*at, "state"),
            f"expected one of {', '.join(known)}, got {repr_value(state)}",
            code=DiagnosticCode.UNKNOWN_VALUE,
        )


def _service_diagnostics(
    at: KeyPath, value: object, known: KnownNames
) -> Iterator[Diagnostic]:
    for name in _names(value):
        if name in known.services:
            continue
        if name in known.guests:
            message = f"{repr_value(name)} is not HA-managed; list it under services"
            yield Diagnostic(at, message, code=DiagnosticCode.INCONSISTENT)
        else:
            yield _unknown_name(at, "guest", name, known.services)


def _node_diagnostics(
    at: KeyPath, fields: Mapping[str, object], keys: Collection[str], known: KnownNames
) -> Iterator[Diagnostic]:
    for key in keys:
        for name in _names(fields.get(key)):
            if name not in known.nodes:
                yield _unknown_name((*at, key), "node", name, known.nodes)


def _unknown_name(
    at: KeyPath, what: str, name: str, known: Collection[str]
) -> Diagnostic:
    # The search for a similar name takes seconds for tens of thousands of names.
    guess = suggestion(name, known) if len(known) < 1000 else ""
    message = f"unknown {what} {repr_value(name)}{guess}"
    return Diagnostic(at, message, code=DiagnosticCode.UNKNOWN_NAME)


def _names(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [name for name in values if isinstance(name, str)]


def _tables(value: object) -> list[Mapping[str, object]]:
    return [as_mapping(part) for part in value] if isinstance(value, list) else []
