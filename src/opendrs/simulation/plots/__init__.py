"""Plots of runs and of sweeps: hosts over time, and energy against service."""

from opendrs.simulation.plots.runs import PlottedRun as PlottedRun
from opendrs.simulation.plots.runs import draw_runs as draw_runs
from opendrs.simulation.plots.sweep import PlottedCandidate as PlottedCandidate
from opendrs.simulation.plots.sweep import draw_sweep as draw_sweep
