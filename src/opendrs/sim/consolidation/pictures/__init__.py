"""Pictures of runs: hosts over time, and energy against service."""

from opendrs.sim.consolidation.pictures.runs import Shown as Shown
from opendrs.sim.consolidation.pictures.runs import draw_runs as draw_runs
