"""Packing guests onto few hosts, so that the others can sleep."""

from opendrs.policies.consolidation.detection import (
    OverloadDetector as OverloadDetector,
)
from opendrs.policies.consolidation.detection import Tallies as Tallies
from opendrs.policies.consolidation.detection import Tally as Tally
from opendrs.policies.consolidation.detection import Verdict as Verdict
from opendrs.policies.consolidation.detection import Verdicts as Verdicts
from opendrs.policies.consolidation.dispersion import (
    interquartile_ranges as interquartile_ranges,
)
from opendrs.policies.consolidation.dispersion import (
    median_absolute_deviations as median_absolute_deviations,
)
from opendrs.policies.consolidation.emptying import emptied as emptied
from opendrs.policies.consolidation.emptying import emptied_columns as emptied_columns
from opendrs.policies.consolidation.guests import GuestLoad as GuestLoad
from opendrs.policies.consolidation.guests import HostRoom as HostRoom
from opendrs.policies.consolidation.guests import free as free
from opendrs.policies.consolidation.histories import Histories as Histories
from opendrs.policies.consolidation.histories import host_history as host_history
from opendrs.policies.consolidation.markov import state_of as state_of
from opendrs.policies.consolidation.measurements import cpu_used as cpu_used
from opendrs.policies.consolidation.measurements import migration_time as migration_time
from opendrs.policies.consolidation.mhod import Mhod as Mhod
from opendrs.policies.consolidation.neat import host_names as host_names
from opendrs.policies.consolidation.overload import Iqr as Iqr
from opendrs.policies.consolidation.overload import LastNAverage as LastNAverage
from opendrs.policies.consolidation.overload import Loess as Loess
from opendrs.policies.consolidation.overload import Mad as Mad
from opendrs.policies.consolidation.overload import Never as Never
from opendrs.policies.consolidation.overload import RobustLoess as RobustLoess
from opendrs.policies.consolidation.overload import Threshold as Threshold
from opendrs.policies.consolidation.placement import (
    BestFitDecreasing as BestFitDecreasing,
)
from opendrs.policies.consolidation.placement import Demands as Demands
from opendrs.policies.consolidation.placement import Rooms as Rooms
from opendrs.policies.consolidation.power import SPECPOWER as SPECPOWER
from opendrs.policies.consolidation.power import PowerCurve as PowerCurve
from opendrs.policies.consolidation.power import power_columns as power_columns
from opendrs.policies.consolidation.power_aware import Curves as Curves
from opendrs.policies.consolidation.power_aware import (
    PowerAwareBestFitDecreasing as PowerAwareBestFitDecreasing,
)
from opendrs.policies.consolidation.selection import GuestColumns as GuestColumns
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
    MinimumUtilisation as MinimumUtilisation,
)
from opendrs.policies.consolidation.selection import RandomChoice as RandomChoice
from opendrs.policies.consolidation.selection import Selection as Selection
from opendrs.policies.consolidation.selection import select as select
from opendrs.policies.consolidation.selection import (
    select_everywhere as select_everywhere,
)
from opendrs.policies.consolidation.time_fraction import Otf as Otf
from opendrs.policies.consolidation.underload import (
    AlwaysUnderloaded as AlwaysUnderloaded,
)
from opendrs.policies.consolidation.underload import (
    UnderloadDetector as UnderloadDetector,
)
from opendrs.policies.consolidation.underload import (
    UnderloadLastNAverage as UnderloadLastNAverage,
)
from opendrs.policies.consolidation.underload import (
    UnderloadThreshold as UnderloadThreshold,
)
