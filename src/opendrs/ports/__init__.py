"""Protocols of the platform, the clock, the store and the request store."""

from opendrs.ports.clock import Clock as Clock
from opendrs.ports.plan_store import INITIAL_STATES as INITIAL_STATES
from opendrs.ports.plan_store import PLAN_TRANSITIONS as PLAN_TRANSITIONS
from opendrs.ports.plan_store import PlanApproval as PlanApproval
from opendrs.ports.plan_store import PlanChange as PlanChange
from opendrs.ports.plan_store import PlanRecord as PlanRecord
from opendrs.ports.plan_store import PlanState as PlanState
from opendrs.ports.plan_store import PlanStore as PlanStore
from opendrs.ports.platform import MAX_POWER_OFF_DELAY as MAX_POWER_OFF_DELAY
from opendrs.ports.platform import GuestTask as GuestTask
from opendrs.ports.platform import Platform as Platform
from opendrs.ports.platform import Progress as Progress
from opendrs.ports.platform import TaskId as TaskId
from opendrs.ports.platform import TaskState as TaskState
from opendrs.ports.platform import TaskStatus as TaskStatus
from opendrs.ports.request_store import RequestRecord as RequestRecord
from opendrs.ports.request_store import RequestState as RequestState
from opendrs.ports.request_store import RequestStore as RequestStore
from opendrs.ports.request_store import UsageHistory as UsageHistory
from opendrs.ports.store import UNKNOWN_RATES as UNKNOWN_RATES
from opendrs.ports.store import CycleRecord as CycleRecord
from opendrs.ports.store import MigrationRates as MigrationRates
from opendrs.ports.store import OperatorAction as OperatorAction
from opendrs.ports.store import Outcome as Outcome
from opendrs.ports.store import StepRecord as StepRecord
from opendrs.ports.store import Store as Store
