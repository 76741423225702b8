"""The words of Proxmox VE for what happens: one rendering of the events."""

from __future__ import annotations

from opendrs.ha.events.event import Event
from opendrs.ha.wording import (
    agents,
    groups,
    jobs,
    nodes,
    processes,
    requests,
    rounds,
    services,
)
from opendrs.ha.wording.line import Level as Level
from opendrs.ha.wording.line import Line as Line
from opendrs.ha.wording.line import Lines as Lines

LINES: Lines = {
    **processes.LINES,
    **nodes.LINES,
    **rounds.LINES,
    **services.LINES,
    **requests.LINES,
    **groups.LINES,
    **agents.LINES,
    **jobs.LINES,
}


def level_of(event: Event) -> Level:
    """Return how important *event* is."""
    return LINES[type(event)].level


def words_of(event: Event) -> str:
    """Return what Proxmox VE writes about *event*."""
    return LINES[type(event)].template.format(event)
