"""What can be expected of a guest, of a node, and of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any

from opendrs.ha.identifiers import ServiceId
from opendrs.model import GuestId, NodeId
from opendrs.sim.drill.history import History
from opendrs.sim.drill.naming import Names
from opendrs.sim.drill.running import Drill


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of everything, in the words of the operator.

    Attributes:
        drill: The drill that was held.
        history: What became of each service and node in it.
        names: What they are called there.
    """

    drill: Drill
    history: History
    names: Names


@dataclass(frozen=True, slots=True)
class Time:
    """The time an expectation is about: from one instant up to another."""

    since: int
    at: int

    def holds(self, time: int) -> bool:
        """Return whether *time* is in it."""
        return self.since <= time <= self.at


def _runs_on(
    outcome: Outcome, service: ServiceId, time: Time, wanted: Sequence[str]
) -> str | None:
    node = _node(outcome, service, time)
    if node in wanted:
        return None
    return f"expected to run on {_either(wanted)}, {_runs(node)}"


def _running(
    outcome: Outcome, service: ServiceId, time: Time, wanted: object
) -> str | None:
    node = _node(outcome, service, time)
    if (node is not None) is wanted:
        return None
    return f"expected {'' if wanted else 'not '}to run, {_runs(node)}"


def _state(
    outcome: Outcome, service: ServiceId, time: Time, wanted: object
) -> str | None:
    state = outcome.history.life(service).at(time.at).state
    if state == wanted:
        return None
    return f"expected to be {wanted}, is {state or 'not known to the manager'}"


def _down_at_most(
    outcome: Outcome, service: ServiceId, time: Time, wanted: int
) -> str | None:
    down = outcome.history.life(service).downtime(time.at)
    if down <= wanted:
        return None
    return f"expected to be down for at most {wanted} s, was for {down} s"


def _down_at_least(
    outcome: Outcome, service: ServiceId, time: Time, wanted: int
) -> str | None:
    down = outcome.history.life(service).downtime(time.at)
    if down >= wanted:
        return None
    return f"expected to be down for at least {wanted} s, was for {down} s"


def _moved(
    outcome: Outcome, service: ServiceId, time: Time, wanted: object
) -> str | None:
    return _happened("move", _moves(outcome, time, service), wanted)


def _started(
    outcome: Outcome, service: ServiceId, time: Time, wanted: object
) -> str | None:
    starts = filter(time.holds, outcome.history.starts.get(service, ()))
    return _happened("be started", [f"at {start} s" for start in starts], wanted)


def _anything_moved(outcome: Outcome, time: Time, wanted: object) -> str | None:
    return _of_any("move", _moves(outcome, time), wanted)


def _anything_started(outcome: Outcome, time: Time, wanted: object) -> str | None:
    starts = [
        f"{outcome.names.guest(service)} at {start} s"
        for service, times in sorted(outcome.history.starts.items())
        for start in filter(time.holds, times)
    ]
    return _of_any("be started", starts, wanted)


def _fenced(outcome: Outcome, node: NodeId, time: Time, wanted: object) -> str | None:
    fencings = filter(time.holds, outcome.history.fencings.get(node, ()))
    return _happened("be fenced", [f"at {when} s" for when in fencings], wanted)


def _anything_fenced(outcome: Outcome, time: Time, wanted: object) -> str | None:
    fencings = [
        f"{outcome.names.node(node)} at {when} s"
        for node, times in sorted(outcome.history.fencings.items())
        for when in filter(time.holds, times)
    ]
    return _of_any("be fenced", fencings, wanted)


def _node_state(
    outcome: Outcome, node: NodeId, time: Time, wanted: object
) -> str | None:
    marks = [m for m in outcome.history.nodes.get(node, ()) if m.time <= time.at]
    state = marks[-1].state if marks else "unknown"
    return None if state == wanted else f"expected to be {wanted}, is {state}"


def _together(outcome: Outcome, time: Time, wanted: Sequence[str]) -> str | None:
    places = _places(outcome, time, wanted)
    if len(set(places.values())) == 1 and None not in places.values():
        return None
    return f"expected together, but {_shown(places)}"


def _apart(outcome: Outcome, time: Time, wanted: Sequence[str]) -> str | None:
    places = _places(outcome, time, wanted)
    close = any(
        places[one] is not None and places[one] == places[other]
        for one, other in combinations(places, 2)
    )
    return f"expected apart, but {_shown(places)}" if close else None


def _log(outcome: Outcome, time: Time, wanted: str) -> str | None:
    if any(_lines(outcome, time, wanted)):
        return None
    return f"expected in the log, and not there: {wanted}"


def _no_log(outcome: Outcome, time: Time, wanted: str) -> str | None:
    line = next(_lines(outcome, time, wanted), None)
    return None if line is None else f"expected not to be in the log: {line}"


def _lines(outcome: Outcome, time: Time, text: str) -> Iterator[str]:
    for entry in outcome.drill.entries:
        if time.holds(entry.time) and text in (line := entry.line()):
            yield line


def _happened(act: str, times: Sequence[str], wanted: object) -> str | None:
    if bool(times) is wanted:
        return None
    if wanted:
        return f"expected to {act}, and {_did(act)} not"
    return f"expected not to {act}, {_did(act)} {', '.join(times)}"


def _of_any(act: str, times: Sequence[str], wanted: object) -> str | None:
    if bool(times) is wanted:
        return None
    if wanted:
        return f"expected some to {act}, none {_did(act)}"
    more = f" and {len(times) - 3} more" if len(times) > 3 else ""
    return f"expected none to {act}, {_did(act)} {', '.join(times[:3])}{more}"


def _moves(outcome: Outcome, time: Time, service: ServiceId | None = None) -> list[str]:
    names = outcome.names
    return [
        f"{'' if service else names.guest(move.service) + ' '}"
        f"to {names.node(move.target)} at {move.time} s"
        for move in outcome.history.moves
        if time.holds(move.time) and service in (None, move.service)
    ]


def _node(outcome: Outcome, service: ServiceId, time: Time) -> NodeId | None:
    node = outcome.history.life(service).at(time.at).node
    return None if node is None else outcome.names.node(node)


def _places(
    outcome: Outcome, time: Time, guests: Iterable[str]
) -> dict[str, NodeId | None]:
    services = {guest: outcome.names.services[GuestId(guest)] for guest in guests}
    return {guest: _node(outcome, service, time) for guest, service in services.items()}


def _shown(places: Mapping[str, NodeId | None]) -> str:
    return ", ".join(f"{guest} {_runs(node)}" for guest, node in places.items())


def _runs(node: NodeId | None) -> str:
    return "does not run" if node is None else f"runs on {node}"


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)


OfGuest = Callable[[Outcome, ServiceId, Time, Any], str | None]
OfNode = Callable[[Outcome, NodeId, Time, Any], str | None]
OfAll = Callable[[Outcome, Time, Any], str | None]

OF_GUESTS: Mapping[str, OfGuest] = MappingProxyType(
    {
        "runs_on": _runs_on,
        "running": _running,
        "state": _state,
        "down_at_most": _down_at_most,
        "down_at_least": _down_at_least,
        "moved": _moved,
        "started": _started,
    }
)
OF_NODES: Mapping[str, OfNode] = MappingProxyType(
    {"fenced": _fenced, "state": _node_state}
)
OF_ALL: Mapping[str, OfAll] = MappingProxyType(
    {
        "moved": _anything_moved,
        "started": _anything_started,
        "fenced": _anything_fenced,
        "together": _together,
        "apart": _apart,
        "log": _log,
        "no_log": _no_log,
    }
)


def _did(act: str) -> str:
    return "was" if act.startswith("be ") else "did"
