"""Simulation: a platform with its own clock, and experiments over recorded load."""

from opendrs.simulation.clock import SimulatedClock as SimulatedClock
from opendrs.simulation.demo import demo_cluster as demo_cluster
from opendrs.simulation.platform import SimulatedPlatform as SimulatedPlatform
