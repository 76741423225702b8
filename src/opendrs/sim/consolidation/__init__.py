"""Data centres that consolidate, over recorded load."""

from opendrs.sim.consolidation.cloudsim import simulate as simulate
from opendrs.sim.consolidation.cloudsim import simulate_days as simulate_days
from opendrs.sim.consolidation.ledger import Result as Result
from opendrs.sim.consolidation.schemes import Baseline as Baseline
from opendrs.sim.consolidation.schemes import Detector as Detector
from opendrs.sim.consolidation.schemes import Migrating as Migrating
from opendrs.sim.consolidation.schemes import Scheme as Scheme
from opendrs.sim.consolidation.schemes import Selector as Selector
from opendrs.sim.consolidation.schemes import scheme as scheme
from opendrs.sim.consolidation.traces import Trace as Trace
from opendrs.sim.consolidation.traces import read_planetlab as read_planetlab
