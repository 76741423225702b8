"""What a picture of a drill shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId
from opendrs.sim.drill.happenings import Executed
from opendrs.sim.drill.history import History
from opendrs.sim.drill.lives import Span
from opendrs.sim.drill.naming import Names
from opendrs.sim.drill.running import Drill


@dataclass(frozen=True, slots=True)
class Play:
    """What is drawn.

    Attributes:
        title: What stands above it.
        drill: The drill.
        history: What became of everything in it.
        names: What guests and nodes are called there.
    """

    title: str
    drill: Drill
    history: History
    names: Names

    @property
    def nodes(self) -> list[NodeId]:
        """Return all nodes, in order of name."""
        return sorted(self.drill.scenario.hosts)

    def spans(self) -> Mapping[ServiceId, list[Span]]:
        """Return when each service ran or was down, by its first node."""
        end = self.history.end
        found = {
            service: list(life.spans(end))
            for service, life in self.history.lives.items()
        }
        return dict(sorted(found.items(), key=lambda item: self._place(*item)))

    def _place(self, service: ServiceId, spans: Sequence[Span]) -> tuple[str, str]:
        """Return what a service is drawn by: its first node, and its name."""
        first = next((span.node for span in spans if span.node is not None), None)
        return (first or "~", self.names.guest(service))

    def deeds(self) -> list[tuple[int, str]]:
        """Return what was done from outside after the beginning, and when."""
        return [
            (entry.time, entry.event.command)
            for entry in self.drill.entries
            if isinstance(entry.event, Executed)
            and entry.source == "cmdlist"
            and (entry.time > 20 or not entry.event.command.endswith(" on"))
            and not entry.event.command.startswith("delay ")
        ]
