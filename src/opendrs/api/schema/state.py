"""State of a platform: controller, nodes, guests, and what needs attention.

Nodes and guests are in columns: entry i of each list belongs to the i-th one. Unknown
values are null. CPU is in cores, memory in bytes.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from opendrs.api.schema.common import Document
from opendrs.config.controller_settings import Mode
from opendrs.controller.modes import ModeSource
from opendrs.ports import PlanState


class LastCycleDocument(Document):
    """The last cycle that ended."""

    run: Annotated[str | None, Field(description="Null if it has no record.")]
    ended_at: datetime
    age: Annotated[float, Field(description="Seconds until `generated_at`.")]
    seconds: Annotated[float, Field(description="Its duration.")]
    reason: Annotated[
        str, Field(description="Code of the decision; `failed` without a decision.")
    ]
    detail: str
    steps: int


class ControllerDocument(Document):
    """The controller of the platform."""

    running: bool
    late: Annotated[
        bool,
        Field(description="The last cycle failed, or is older than three intervals."),
    ]
    host: Annotated[str | None, Field(description="Machine of the last controller.")]
    pid: int | None
    version: str | None
    started_at: datetime | None
    interval: Annotated[float | None, Field(description="Seconds between two cycles.")]
    policy: str | None
    next_cycle_at: Annotated[
        datetime | None,
        Field(
            description="Expected start of the next cycle; null if no controller runs, "
            "the last cycle failed, or a plan is executed, which comes first."
        ),
    ]
    last_cycle: LastCycleDocument | None


class ModeDocument(Document):
    """The mode that applies now, and why."""

    mode: Mode
    source: ModeSource
    detail: str
    text: Annotated[str, Field(description="What the controller does in this mode.")]
    configured: Mode
    repair: Annotated[Mode, Field(description="Mode of plans that repair rules.")]


class PauseDocument(Document):
    """A pause that has not ended."""

    until: datetime
    because: str
    user: str
    at: datetime


class BreakerDocument(Document):
    """An open circuit breaker."""

    opened_at: datetime
    detail: str


class ExceptionSeverity(StrEnum):
    """ExceptionSeverity of an exception. The values are stable."""

    ERROR = "error"
    """The controller cannot do its work."""
    WARNING = "warning"
    """A part of the cluster needs attention."""
    INFO = "info"
    """For information."""


class ExceptionDocument(Document):
    """Something that needs attention."""

    code: Annotated[str, Field(description="Stable code; see the reference of codes.")]
    severity: ExceptionSeverity
    subject: Annotated[
        str | None, Field(description="Node, guest, rule, plan or step; else null.")
    ]
    detail: str


class NodeColumns(Document):
    """The nodes."""

    id: list[str]
    state: list[str]
    group: Annotated[
        list[str | None], Field(description="Rack, zone or group of nodes.")
    ]
    cpu_capacity: list[float | None]
    memory_capacity: list[int | None]
    cpu: list[float | None]
    memory: list[int | None]
    role: Annotated[
        list[str],
        Field(description="`source`, `target`, `both` or `neutral` in the plan."),
    ]
    jobs: Annotated[list[list[str]], Field(description="Jobs of the platform on it.")]
    drained: Annotated[list[bool], Field(description="An operator drains it.")]


class GuestColumns(Document):
    """The guests."""

    id: list[str]
    node: Annotated[list[int], Field(description="Index of its node.")]
    cpu: list[float | None]
    memory: list[int | None]
    memory_limit: list[int | None]
    state: list[str]
    managed_by: Annotated[
        list[str | None], Field(description="Program that places it instead.")
    ]
    stays: Annotated[
        list[str | None],
        Field(description="Code of the reason why it was skipped; else null."),
    ]


class PlanSummaryDocument(Document):
    """A plan that waits for approval or is executed."""

    id: str
    state: PlanState
    policy: str
    reason: str
    reason_detail: str
    step_count: int
    approved_count: Annotated[
        int | None, Field(description="Approved steps; null before the approval.")
    ]
    created_at: datetime
    expires_at: datetime
    digest: str


class PlanReference(Document):
    """A plan to which an entry of the history belongs."""

    id: str
    state: PlanState
    step_count: int
    approved_count: Annotated[
        int | None, Field(description="Approved steps; null before the approval.")
    ]
    approved_by: Annotated[
        str | None, Field(description="Null without an approval of a user.")
    ]


class NothingDocument(Document):
    """Why nothing is to be done."""

    reason: Annotated[str, Field(description="Code of the decision reason.")]
    sentence: str


class StepProgressDocument(Document):
    """Progress of a running migration, as the platform reported it last."""

    run: str
    step: str
    total: Annotated[int | None, Field(description="Bytes to transfer.")]
    remaining: Annotated[int | None, Field(description="Bytes that remain.")]
    dirty_rate: Annotated[float | None, Field(description="Bytes per second.")]
    bandwidth: Annotated[float | None, Field(description="Bytes per second.")]
    at: datetime


class StateDocument(Document):
    """State of a platform."""

    sequence: Annotated[
        int, Field(description="Number of the last event; for `Last-Event-ID`.")
    ]
    etag: Annotated[str, Field(description="Names this state in `event: state`.")]
    generated_at: datetime
    observed_at: Annotated[
        datetime | None, Field(description="Time of the snapshot of the cluster.")
    ]
    platform: str
    controller: ControllerDocument
    mode: ModeDocument
    pause: PauseDocument | None
    breaker: BreakerDocument | None
    api_breaker: BreakerDocument | None
    exceptions: list[ExceptionDocument]
    metrics: Annotated[
        dict[str, float | None],
        Field(description="Metrics of the policy before the plan."),
    ]
    nodes: NodeColumns
    guests: GuestColumns
    plan: PlanSummaryDocument | None
    open_plans: Annotated[list[str], Field(description="Ids, the oldest first.")]
    nothing: NothingDocument | None
    progress: list[StepProgressDocument]


class StateDelta(Document):
    """Changed loads, which replace those at the given positions."""

    cpu: Annotated[list[float | None], Field(description="Of all nodes.")]
    memory: Annotated[list[int | None], Field(description="Of all nodes.")]
    guests: Annotated[list[int], Field(description="Positions of changed guests.")]
    guest_node: list[int]
    guest_cpu: list[float | None]
    guest_memory: list[int | None]


class StateMessage(Document):
    """Data of `event: state`.

    A client whose state has the ETag `etag` is current. One whose state has the ETag
    `base` applies `delta` and is current then. Any other requests `/state` again.
    """

    etag: str
    base: str | None
    delta: StateDelta | None
    observed_at: datetime | None
    controller: ControllerDocument
    exceptions: list[ExceptionDocument]
    metrics: dict[str, float | None]
    nothing: NothingDocument | None
