"""Failover drills: injected failures against the HA manager on simulated nodes."""

from opendrs.pve_ha.simulator.drill_log import DrillLogEntry as DrillLogEntry
from opendrs.pve_ha.simulator.run import Drill as Drill
from opendrs.pve_ha.simulator.run import run_drill as run_drill
from opendrs.pve_ha.simulator.scenario import INSTANT_TIMING as INSTANT_TIMING
from opendrs.pve_ha.simulator.scenario import DrillScenario as DrillScenario
from opendrs.pve_ha.simulator.scenario_directory import read_scenario as read_scenario
