"""Placement of guests that start: new ones, and those of failed or removed nodes."""

from opendrs.placement.capacity import AdditionalGuests as AdditionalGuests
from opendrs.placement.capacity import DispensableNodes as DispensableNodes
from opendrs.placement.capacity import GuestSize as GuestSize
from opendrs.placement.capacity import additional_guests as additional_guests
from opendrs.placement.capacity import dispensable_nodes as dispensable_nodes
from opendrs.placement.capacity import median_size as median_size
from opendrs.placement.capacity import size_like as size_like
from opendrs.placement.changes import MAX_ADDED as MAX_ADDED
from opendrs.placement.changes import MAX_GROWTH as MAX_GROWTH
from opendrs.placement.changes import NodeAddition as NodeAddition
from opendrs.placement.changes import Scenario as Scenario
from opendrs.placement.changes import with_added_nodes as with_added_nodes
from opendrs.placement.failures import FailureTolerance as FailureTolerance
from opendrs.placement.failures import IntoleratedFailure as IntoleratedFailure
from opendrs.placement.failures import failure_tolerance as failure_tolerance
from opendrs.placement.reasons import InfeasibleReason as InfeasibleReason
from opendrs.placement.reasons import UnplacedReason as UnplacedReason
from opendrs.placement.required_tolerance import RequiredTolerance as RequiredTolerance
from opendrs.placement.required_tolerance import (
    required_tolerance as required_tolerance,
)
from opendrs.placement.reserves import FailureReserves as FailureReserves
from opendrs.placement.restoring import RestoringSearch as RestoringSearch
from opendrs.placement.start import MAX_COUNT as MAX_COUNT
from opendrs.placement.start import InfeasibleNode as InfeasibleNode
from opendrs.placement.start import RankedNode as RankedNode
from opendrs.placement.start import StartPlacement as StartPlacement
from opendrs.placement.start import StartRequest as StartRequest
from opendrs.placement.start import start_placement as start_placement
from opendrs.placement.what_if import PlacedGuest as PlacedGuest
from opendrs.placement.what_if import ScenarioResult as ScenarioResult
from opendrs.placement.what_if import UnplacedGuest as UnplacedGuest
from opendrs.placement.what_if import apply_scenario as apply_scenario
