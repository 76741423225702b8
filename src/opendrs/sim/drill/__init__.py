"""Drills: a cluster in memory, what happens to it, and what the HA stack does."""

from opendrs.sim.drill.log import Entry as Entry
from opendrs.sim.drill.log import log_text as log_text
from opendrs.sim.drill.reading import read_scenario as read_scenario
from opendrs.sim.drill.running import Drill as Drill
from opendrs.sim.drill.running import hold_drill as hold_drill
from opendrs.sim.drill.scenario import AT_ONCE as AT_ONCE
from opendrs.sim.drill.scenario import LIKE_PROXMOX as LIKE_PROXMOX
from opendrs.sim.drill.scenario import Scenario as Scenario
from opendrs.sim.drill.scenario import Timing as Timing
