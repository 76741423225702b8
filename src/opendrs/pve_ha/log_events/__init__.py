"""The log events of the HA manager: typed values with the messages of Proxmox VE.

Each event class is defined in one place, with its fields, level and template.
"""

# A list of all names here would be a second place to change for each event.
# ruff: noqa: F403

from opendrs.pve_ha.log_events.base import LogEvent as LogEvent
from opendrs.pve_ha.log_events.base import LogLevel as LogLevel
from opendrs.pve_ha.log_events.base import LogLine as LogLine
from opendrs.pve_ha.log_events.crm_commands import *
from opendrs.pve_ha.log_events.jobs import *
from opendrs.pve_ha.log_events.lrm import *
from opendrs.pve_ha.log_events.manager import *
from opendrs.pve_ha.log_events.processes import *
from opendrs.pve_ha.log_events.services import *
