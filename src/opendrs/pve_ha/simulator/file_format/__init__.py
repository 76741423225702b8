"""Drill files in the format opendrs-drill/1."""

from opendrs.pve_ha.simulator.file_format.parse import DrillFile as DrillFile
from opendrs.pve_ha.simulator.file_format.parse import (
    drill_and_diagnostics as drill_and_diagnostics,
)
from opendrs.pve_ha.simulator.file_format.parse import drill_from as drill_from
from opendrs.pve_ha.simulator.file_format.parse import read_drill as read_drill
