"""Names in a drill file that lead nowhere, and words that do not go together.

Works on the plain values of a document rather than on checked ones, so that a
wrong number elsewhere does not hide a wrong name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from opendrs.ha.states import NodeState, ServiceState
from opendrs.platforms.file import Complaint, Location, shown, suggestion
from opendrs.sim.drill.form.expectations import predicates
from opendrs.sim.drill.form.happenings import VERBS
from opendrs.sim.drill.form.judgements import OF_ALL, OF_GUESTS, OF_NODES

_ONE_OF = {
    "files": ("readable", "consistent"),
    "limit": ("cpu", "memory"),
    "usage": ("cpu", "memory"),
    "fail": ("starts", "moves", "never_stops"),
}
_PREFIXES = ("vm:", "ct:")


@dataclass(frozen=True, slots=True)
class Known:
    """The names there are.

    Attributes:
        nodes: The nodes of the snapshot.
        guests: Its guests.
        services: Those of them that are services, and those that are added.
    """

    nodes: Collection[str]
    guests: Collection[str]
    services: Collection[str]


def unfit(document: Mapping[str, object], known: Known) -> Iterator[Complaint]:
    """Yield a complaint about each name and each combination that is wrong."""
    for index, event in enumerate(_tables(document.get("events"))):
        yield from _of_event(("events", index), event, known)
    for index, entry in enumerate(_tables(document.get("expect"))):
        yield from _of_expectation(("expect", index), entry, known)
    for name, service in _table(document.get("services")).items():
        at = ("services", name)
        if name not in known.guests:
            yield _unknown(at, "guest", name, known.guests)
        fails = _table(_table(service).get("fails"))
        yield from _nodes((*at, "fails"), fails, ("node",), known)


def added_guests(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the guests that the events of *document* add."""
    for event in _tables(document.get("events")):
        for name in _names(_table(event.get("add")).get("guest")):
            if name.startswith(_PREFIXES):
                yield name


def _of_event(
    at: Location, event: Mapping[str, object], known: Known
) -> Iterator[Complaint]:
    verbs = sorted(VERBS & event.keys())
    if len(verbs) > 1:
        yield Complaint(at, f"expected one of {' and '.join(verbs)}, in an event each")
    if not verbs and not event.keys() - {"at"}:
        yield Complaint(at, "expected what happens, such as power or crash")
    for verb in verbs:
        fields = _table(event[verb])
        if verb in _ONE_OF and not fields.keys() & set(_ONE_OF[verb]):
            yield Complaint((*at, verb), f"expected {' or '.join(_ONE_OF[verb])}")
        places = ("node",) if verb == "version" else ("node", "to")
        yield from _nodes((*at, verb), fields, places, known)
        if verb == "add":
            yield from _of_addition((*at, verb, "guest"), fields)
        yield from _services((*at, verb, "guest"), fields.get("guest"), known)
    for index, rule in enumerate(_tables(event.get("rules"))):
        yield from _of_rule((*at, "rules", index), rule, known)


def _of_addition(at: Location, fields: Mapping[str, object]) -> Iterator[Complaint]:
    for name in _names(fields.get("guest")):
        if not name.startswith(_PREFIXES):
            yield Complaint(at, f"expected vm:NAME or ct:NAME, found {shown(name)}")


def _of_rule(
    at: Location, rule: Mapping[str, object], known: Known
) -> Iterator[Complaint]:
    everyone = {*known.guests, *known.services}
    for name in _names(rule.get("guests")):
        if name not in everyone:
            yield _unknown((*at, "guests"), "guest", name, everyone)
    for name in _table(rule.get("nodes")):
        if name not in known.nodes:
            yield _unknown((*at, "nodes"), "node", name, known.nodes)


def _of_expectation(
    at: Location, entry: Mapping[str, object], known: Known
) -> Iterator[Complaint]:
    yield from _nodes(at, entry, ("node", "runs_on"), known)
    for field in ("guest", "together", "apart"):
        yield from _services((*at, field), entry.get(field), known)
    if "guest" in entry and "node" in entry:
        yield Complaint(at, "expected a guest or a node, found both")
        return
    whose = "guest" if "guest" in entry else "node" if "node" in entry else None
    sayable = {"guest": OF_GUESTS, "node": OF_NODES, None: OF_ALL}[whose]
    every = {*OF_GUESTS, *OF_NODES, *OF_ALL}
    said = predicates(entry) & every
    if not said and not predicates(entry):
        yield Complaint(at, f"expected one of {', '.join(sorted(sayable))}")
    for field in sorted(said - sayable.keys()):
        whom = f"of a {whose}" if whose else "without a guest or a node"
        yield Complaint((*at, field), f"cannot be said {whom}")
    yield from _of_state(at, entry, whose)


def _of_state(
    at: Location, entry: Mapping[str, object], whose: str | None
) -> Iterator[Complaint]:
    state, words = entry.get("state"), NodeState if whose == "node" else ServiceState
    if isinstance(state, str) and whose and state not in set(words):
        known = [word.value for word in words]
        yield Complaint(
            (*at, "state"), f"expected one of {', '.join(known)}, found {shown(state)}"
        )


def _services(at: Location, value: object, known: Known) -> Iterator[Complaint]:
    for name in _names(value):
        if name in known.services:
            continue
        if name in known.guests:
            how = "it is one when it is named under services"
            yield Complaint(at, f"{shown(name)} is not HA-managed; {how}")
        else:
            yield _unknown(at, "guest", name, known.services)


def _nodes(
    at: Location, fields: Mapping[str, object], keys: Collection[str], known: Known
) -> Iterator[Complaint]:
    for key in keys:
        for name in _names(fields.get(key)):
            if name not in known.nodes:
                yield _unknown((*at, key), "node", name, known.nodes)


def _unknown(at: Location, what: str, name: str, known: Collection[str]) -> Complaint:
    # Guessing among tens of thousands of names takes seconds.
    guess = suggestion(name, known) if len(known) < 1000 else ""
    return Complaint(at, f"there is no {what} {shown(name)}{guess}")


def _names(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [name for name in values if isinstance(name, str)]


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _tables(value: object) -> list[Mapping[str, object]]:
    return [_table(part) for part in value] if isinstance(value, list) else []
