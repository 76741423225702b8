"""Assertions of a drill file, checked against the history of the drill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any

from opendrs.model import GuestId, NodeId
from opendrs.pve_ha.simulator.file_format.schema import ExpectEntry
from opendrs.pve_ha.simulator.history import DrillHistory
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.simulator.run import Drill
from opendrs.pve_ha.states import ServiceId


@dataclass(frozen=True, slots=True)
class DrillState:
    """A finished drill, its history and the names in it.

    Attributes:
        drill: The drill.
        history: Its history.
        names: Names of guests and nodes.
    """

    drill: Drill
    history: DrillHistory
    names: PveNames


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Time interval of an expectation; both ends are included."""

    since: int
    at: int

    def contains(self, time: int) -> bool:
        """Return True if *time* is in the interval."""
        return self.since <= time <= self.at


def _runs_on(
    drill_state: DrillState,
    service: ServiceId,
    time: TimeWindow,
    expected: Sequence[str],
) -> str | None:
    node = _node(drill_state, service, time)
    if node in expected:
        return None
    return f"expected to run on {_either(expected)}, {_runs(node)}"


def _running(
    drill_state: DrillState, service: ServiceId, time: TimeWindow, expected: object
) -> str | None:
    node = _node(drill_state, service, time)
    if (node is not None) is expected:
        return None
    return f"expected {'' if expected else 'not '}to run, {_runs(node)}"


def _state(
    drill_state: DrillState, service: ServiceId, time: TimeWindow, expected: object
) -> str | None:
    state = drill_state.history.timeline_of(service).at(time.at).state
    if state == expected:
        return None
    return f"expected to be {expected}, is {state or 'unknown to the manager'}"


def _down_at_most(
    drill_state: DrillState, service: ServiceId, time: TimeWindow, expected: int
) -> str | None:
    downtime = drill_state.history.timeline_of(service).downtime(time.at)
    if downtime <= expected:
        return None
    return f"expected to be down for at most {expected} s, was for {downtime} s"


def _down_at_least(
    drill_state: DrillState, service: ServiceId, time: TimeWindow, expected: int
) -> str | None:
    downtime = drill_state.history.timeline_of(service).downtime(time.at)
    if downtime >= expected:
        return None
    return f"expected to be down for at least {expected} s, was for {downtime} s"


def _moved(
    drill_state: DrillState, service: ServiceId, time: TimeWindow, expected: object
) -> str | None:
    return _check_occurrence("move", _moves(drill_state, time, service), expected)


def _started(
    drill_state: DrillState, service: ServiceId, time: TimeWindow, expected: object
) -> str | None:
    starts = filter(time.contains, drill_state.history.starts.get(service, ()))
    return _check_occurrence(
        "be started", [f"at {start} s" for start in starts], expected
    )


def _any_moved(
    drill_state: DrillState, time: TimeWindow, expected: object
) -> str | None:
    return _check_any("move", _moves(drill_state, time), expected)


def _any_started(
    drill_state: DrillState, time: TimeWindow, expected: object
) -> str | None:
    starts = [
        f"{drill_state.names.guest_name(service)} at {start} s"
        for service, times in sorted(drill_state.history.starts.items())
        for start in filter(time.contains, times)
    ]
    return _check_any("be started", starts, expected)


def _fenced(
    drill_state: DrillState, node: NodeId, time: TimeWindow, expected: object
) -> str | None:
    fencings = filter(time.contains, drill_state.history.fencings.get(node, ()))
    return _check_occurrence(
        "be fenced", [f"at {when} s" for when in fencings], expected
    )


def _any_fenced(
    drill_state: DrillState, time: TimeWindow, expected: object
) -> str | None:
    fencings = [
        f"{drill_state.names.node_name(node)} at {when} s"
        for node, times in sorted(drill_state.history.fencings.items())
        for when in filter(time.contains, times)
    ]
    return _check_any("be fenced", fencings, expected)


def _node_state(
    drill_state: DrillState, node: NodeId, time: TimeWindow, expected: object
) -> str | None:
    points = [
        m for m in drill_state.history.node_states.get(node, ()) if m.time <= time.at
    ]
    state = points[-1].state if points else "unknown"
    return None if state == expected else f"expected to be {expected}, is {state}"


def _together(
    drill_state: DrillState, time: TimeWindow, expected: Sequence[str]
) -> str | None:
    nodes = _nodes_of(drill_state, time, expected)
    if len(set(nodes.values())) == 1 and None not in nodes.values():
        return None
    return f"expected together, but {_shown(nodes)}"


def _apart(
    drill_state: DrillState, time: TimeWindow, expected: Sequence[str]
) -> str | None:
    nodes = _nodes_of(drill_state, time, expected)
    share_node = any(
        nodes[one] is not None and nodes[one] == nodes[other]
        for one, other in combinations(nodes, 2)
    )
    return f"expected apart, but {_shown(nodes)}" if share_node else None


def _log(drill_state: DrillState, time: TimeWindow, expected: str) -> str | None:
    if any(_lines(drill_state, time, expected)):
        return None
    return f"expected in the log, not found: {expected}"


def _no_log(drill_state: DrillState, time: TimeWindow, expected: str) -> str | None:
    line = next(_lines(drill_state, time, expected), None)
    return None if line is None else f"expected not to be in the log: {line}"


def _lines(drill_state: DrillState, time: TimeWindow, text: str) -> Iterator[str]:
    for entry in drill_state.drill.entries:
        if time.contains(entry.time) and text in (line := entry.line()):
            yield line


def _check_occurrence(act: str, times: Sequence[str], expected: object) -> str | None:
    if bool(times) is expected:
        return None
    if expected:
        return f"expected to {act}, {_did(act)} not"
    return f"expected not to {act}, {_did(act)} {', '.join(times)}"


def _check_any(act: str, times: Sequence[str], expected: object) -> str | None:
    if bool(times) is expected:
        return None
    if expected:
        return f"expected some to {act}, none {_did(act)}"
    more = f" and {len(times) - 3} more" if len(times) > 3 else ""
    return f"expected none to {act}, {_did(act)} {', '.join(times[:3])}{more}"


def _moves(
    drill_state: DrillState, time: TimeWindow, service: ServiceId | None = None
) -> list[str]:
    names = drill_state.names
    return [
        f"{'' if service else names.guest_name(move.service) + ' '}"
        f"to {names.node_name(move.target)} at {move.time} s"
        for move in drill_state.history.moves
        if time.contains(move.time) and service in (None, move.service)
    ]


def _node(
    drill_state: DrillState, service: ServiceId, time: TimeWindow
) -> NodeId | None:
    node = drill_state.history.timeline_of(service).at(time.at).node
    return None if node is None else drill_state.names.node_name(node)


def _nodes_of(
    drill_state: DrillState, time: TimeWindow, guests: Iterable[str]
) -> dict[str, NodeId | None]:
    services = {guest: drill_state.names.services[GuestId(guest)] for guest in guests}
    return {
        guest: _node(drill_state, service, time) for guest, service in services.items()
    }


def _shown(nodes: Mapping[str, NodeId | None]) -> str:
    return ", ".join(f"{guest} {_runs(node)}" for guest, node in nodes.items())


def _runs(node: NodeId | None) -> str:
    return "does not run" if node is None else f"runs on {node}"


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)


GuestAssertion = Callable[[DrillState, ServiceId, TimeWindow, Any], str | None]
NodeAssertion = Callable[[DrillState, NodeId, TimeWindow, Any], str | None]
GlobalAssertion = Callable[[DrillState, TimeWindow, Any], str | None]

GUEST_ASSERTIONS: Mapping[str, GuestAssertion] = MappingProxyType(
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

NODE_ASSERTIONS: Mapping[str, NodeAssertion] = MappingProxyType(
    {"fenced": _fenced, "state": _node_state}
)

GLOBAL_ASSERTIONS: Mapping[str, GlobalAssertion] = MappingProxyType(
    {
        "moved": _any_moved,
        "started": _any_started,
        "fenced": _any_fenced,
        "together": _together,
        "apart": _apart,
        "log": _log,
        "no_log": _no_log,
    }
)


def _did(act: str) -> str:
    return "was" if act.startswith("be ") else "did"


SUBJECTS = ("guest", "node")
TIMES = ("at", "since")


def failed_expectations(entry: ExpectEntry, drill_state: DrillState) -> Iterator[str]:
    """Yield a message for each assertion of a validated *entry* that fails."""
    fields: Mapping[str, Any] = entry
    end = drill_state.history.ended_at
    time = TimeWindow(fields.get("since", 0), min(fields.get("at", end), end))
    when = f" by {time.at} s" if "at" in fields else ""
    for result in _failures(fields, drill_state, time):
        yield f"{result}{when}"


def assertion_names(entry: Mapping[str, object]) -> frozenset[str]:
    """Return the assertions of *entry*: its fields except subject and time."""
    return frozenset(entry) - {*SUBJECTS, *TIMES}


def _failures(
    fields: Mapping[str, Any], drill_state: DrillState, time: TimeWindow
) -> Iterator[str]:
    for assertion in sorted(assertion_names(fields)):
        expected = fields[assertion]
        if "guest" in fields:
            for guest in fields["guest"]:
                service = drill_state.names.services[GuestId(guest)]
                result = GUEST_ASSERTIONS[assertion](
                    drill_state, service, time, expected
                )
                if result is not None:
                    yield f"{guest}: {result}"
        elif "node" in fields:
            for node in fields["node"]:
                name = drill_state.names.nodes[NodeId(node)]
                result = NODE_ASSERTIONS[assertion](drill_state, name, time, expected)
                if result is not None:
                    yield f"{node}: {result}"
        else:
            result = GLOBAL_ASSERTIONS[assertion](drill_state, time, expected)
            if result is not None:
                yield result
