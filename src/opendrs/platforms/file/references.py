"""Names that lead nowhere: guests on no node, rules about no guest.

Works on the plain values of a document rather than on checked ones, so that a
wrong number elsewhere does not hide a wrong name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from opendrs.platforms.file.complaints import Complaint, shown


def dangling(document: object) -> Iterator[Complaint]:
    """Yield a complaint for each name of a guest or a node that is nowhere."""
    root = _table(document)
    nodes, guests = root.get("nodes"), root.get("guests")
    if not isinstance(nodes, Mapping) or not isinstance(guests, Mapping):
        return
    for name, guest in guests.items():
        yield from _of_guest(name, _table(guest), nodes)
    rules = root.get("rules")
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        yield from _of_rule(index, _table(rule), nodes, guests)


def _of_guest(
    name: str, guest: Mapping[str, object], nodes: Collection[str]
) -> Iterator[Complaint]:
    for field in ("node", "migrating_to"):
        place = guest.get(field)
        if isinstance(place, str) and place not in nodes:
            yield _unknown(("guests", name, field), "node", place, nodes)
    if guest.get("migrating_to", nodes) == guest.get("node"):
        yield Complaint(
            ("guests", name, "migrating_to"),
            f"expected another node than {shown(guest['node'])}, where it is",
        )


def _of_rule(
    index: int,
    rule: Mapping[str, object],
    nodes: Collection[str],
    guests: Collection[str],
) -> Iterator[Complaint]:
    named = rule.get("guests")
    for guest in named if isinstance(named, list) else []:
        if isinstance(guest, str) and guest not in guests:
            yield _unknown(("rules", index, "guests"), "guest", guest, guests)
    for node in _table(rule.get("nodes")):
        if node not in nodes:
            yield _unknown(("rules", index, "nodes"), "node", node, nodes)


def _unknown(
    at: tuple[str | int, ...], what: str, name: str, known: Collection[str]
) -> Complaint:
    # Guessing among tens of thousands of names takes seconds.
    guesses = known if len(known) < 1000 else ()
    return Complaint(at, f"there is no {what} {shown(name)}", name, guesses)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
