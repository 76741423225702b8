"""What a drill file expects, and whether it came true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opendrs.model import GuestId, NodeId
from opendrs.sim.drill.form.judgements import (
    OF_ALL,
    OF_GUESTS,
    OF_NODES,
    Outcome,
    Time,
)
from opendrs.sim.drill.form.wire import ExpectEntry

SUBJECTS = ("guest", "node")
TIMES = ("at", "since")


def disappointments(entry: ExpectEntry, outcome: Outcome) -> Iterator[str]:
    """Yield how things came otherwise than a checked *entry* expects."""
    fields: Mapping[str, Any] = entry
    end = outcome.history.end
    time = Time(fields.get("since", 0), min(fields.get("at", end), end))
    when = f" by {time.at} s" if "at" in fields else ""
    for found in _found(fields, outcome, time):
        yield f"{found}{when}"


def predicates(entry: Mapping[str, object]) -> frozenset[str]:
    """Return what *entry* expects: its fields but for whom and when."""
    return frozenset(entry) - {*SUBJECTS, *TIMES}


def _found(fields: Mapping[str, Any], outcome: Outcome, time: Time) -> Iterator[str]:
    for predicate in sorted(predicates(fields)):
        wanted = fields[predicate]
        if "guest" in fields:
            for guest in fields["guest"]:
                service = outcome.names.services[GuestId(guest)]
                found = OF_GUESTS[predicate](outcome, service, time, wanted)
                if found is not None:
                    yield f"{guest}: {found}"
        elif "node" in fields:
            for node in fields["node"]:
                name = outcome.names.nodes[NodeId(node)]
                found = OF_NODES[predicate](outcome, name, time, wanted)
                if found is not None:
                    yield f"{node}: {found}"
        else:
            found = OF_ALL[predicate](outcome, time, wanted)
            if found is not None:
                yield found
