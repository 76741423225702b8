"""Reimplementation of CloudSim 3.0.3: the PlanetLab experiment, identical results."""

from opendrs.simulation.cloudsim.metrics import CloudSimMetrics as CloudSimMetrics
from opendrs.simulation.cloudsim.run import simulate as simulate
from opendrs.simulation.cloudsim.run import simulate_days as simulate_days
from opendrs.simulation.cloudsim.schemes import CloudSimBaseline as CloudSimBaseline
from opendrs.simulation.cloudsim.schemes import CloudSimDetector as CloudSimDetector
from opendrs.simulation.cloudsim.schemes import CloudSimSelector as CloudSimSelector
from opendrs.simulation.cloudsim.schemes import MigrationScheme as MigrationScheme
from opendrs.simulation.cloudsim.schemes import parse_scheme as parse_scheme
