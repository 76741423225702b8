"""The LRM process of a node, which starts, stops and migrates its services."""

from opendrs.pve_ha.lrm.process import JobResult as JobResult
from opendrs.pve_ha.lrm.process import Lrm as Lrm
from opendrs.pve_ha.lrm.process import LrmJob as LrmJob
