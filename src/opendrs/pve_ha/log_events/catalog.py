"""The log line of each event."""

from __future__ import annotations

from opendrs.pve_ha.log_events import (
    crm_commands,
    jobs,
    lrm,
    manager,
    processes,
    services,
)
from opendrs.pve_ha.log_events.base import LogEvent
from opendrs.pve_ha.log_events.base import LogLevel as LogLevel
from opendrs.pve_ha.log_events.base import LogLines as LogLines

LOG_LINES: LogLines = {
    **processes.PROCESS_LINES,
    **manager.NODE_LINES,
    **manager.ROUND_LINES,
    **services.SERVICE_LINES,
    **crm_commands.CRM_COMMAND_LINES,
    **manager.GROUP_LINES,
    **lrm.LRM_LINES,
    **jobs.JOB_LINES,
}


def log_level(event: LogEvent) -> LogLevel:
    """Return how important *event* is."""
    return LOG_LINES[type(event)].level


def log_message(event: LogEvent) -> str:
    """Return what Proxmox VE writes about *event*."""
    return LOG_LINES[type(event)].template.format(event)
