"""Pictures of runs and of sweeps: hosts over time, and energy against service."""

from opendrs.sim.consolidation.pictures.runs import Shown as Shown
from opendrs.sim.consolidation.pictures.runs import draw_runs as draw_runs
from opendrs.sim.consolidation.pictures.sweep import Drawn as Drawn
from opendrs.sim.consolidation.pictures.sweep import draw_sweep as draw_sweep
