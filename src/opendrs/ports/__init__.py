"""The seams to the world outside: what opendrs needs, and nothing it has."""

from opendrs.ports.clock import Clock as Clock
from opendrs.ports.inbox import GuestHistory as GuestHistory
from opendrs.ports.inbox import Inbox as Inbox
from opendrs.ports.inbox import RequestRecord as RequestRecord
from opendrs.ports.inbox import RequestState as RequestState
from opendrs.ports.platform import Platform as Platform
from opendrs.ports.platform import Progress as Progress
from opendrs.ports.platform import TaskId as TaskId
from opendrs.ports.platform import TaskState as TaskState
from opendrs.ports.platform import TaskStatus as TaskStatus
from opendrs.ports.store import CycleRecord as CycleRecord
from opendrs.ports.store import Outcome as Outcome
from opendrs.ports.store import StepRecord as StepRecord
from opendrs.ports.store import Store as Store
