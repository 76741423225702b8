"""Consolidation: run the guests on few nodes so that the others can be powered off."""

from opendrs.policies.consolidation.detector import OverloadCounter as OverloadCounter
from opendrs.policies.consolidation.detector import OverloadCounters as OverloadCounters
from opendrs.policies.consolidation.detector import OverloadDetector as OverloadDetector
from opendrs.policies.consolidation.detector import (
    UnderloadDetector as UnderloadDetector,
)
from opendrs.policies.consolidation.detector import (
    UnderloadLastNAverage as UnderloadLastNAverage,
)
from opendrs.policies.consolidation.history import LoadHistories as LoadHistories
from opendrs.policies.consolidation.overload import IqrDetector as IqrDetector
from opendrs.policies.consolidation.overload import (
    LastNAverageDetector as LastNAverageDetector,
)
from opendrs.policies.consolidation.overload import LoessDetector as LoessDetector
from opendrs.policies.consolidation.overload import MadDetector as MadDetector
from opendrs.policies.consolidation.overload import NeverOverloaded as NeverOverloaded
from opendrs.policies.consolidation.overload import (
    RobustLoessDetector as RobustLoessDetector,
)
from opendrs.policies.consolidation.overload import (
    ThresholdDetector as ThresholdDetector,
)
from opendrs.policies.consolidation.policy import Consolidate as Consolidate
from opendrs.policies.consolidation.power_curve import SPECPOWER as SPECPOWER
from opendrs.policies.consolidation.power_curve import PowerCurve as PowerCurve
from opendrs.policies.consolidation.power_curve import power_draw as power_draw
from opendrs.policies.consolidation.robust_statistics import (
    interquartile_ranges as interquartile_ranges,
)
from opendrs.policies.consolidation.robust_statistics import (
    median_absolute_deviations as median_absolute_deviations,
)
from opendrs.policies.consolidation.selection import (
    EvictionCandidates as EvictionCandidates,
)
from opendrs.policies.consolidation.selection import GuestLoad as GuestLoad
from opendrs.policies.consolidation.selection import GuestSelector as GuestSelector
from opendrs.policies.consolidation.selection import (
    MaximumCorrelation as MaximumCorrelation,
)
from opendrs.policies.consolidation.selection import (
    MinimumMigrationTime as MinimumMigrationTime,
)
from opendrs.policies.consolidation.selection import (
    MinimumMigrationTimeMaximumCpu as MinimumMigrationTimeMaximumCpu,
)
from opendrs.policies.consolidation.selection import (
    MinimumUtilization as MinimumUtilization,
)
from opendrs.policies.consolidation.selection import RandomChoice as RandomChoice
from opendrs.policies.consolidation.time_fraction import MhodDetector as MhodDetector
from opendrs.policies.consolidation.time_fraction import (
    OverloadTimeFraction as OverloadTimeFraction,
)
