"""Recorded cycles, moves, and figures of the cluster over time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from opendrs.api.schema.common import Document, MovedDiskDocument
from opendrs.api.schema.state import GuestColumns, NodeColumns, PlanReference
from opendrs.ports import Outcome

Figures = Annotated[
    dict[str, float | None], Field(description="Metrics of the policy by name.")
]
Next = Annotated[
    str | None, Field(description="Cursor of the next page; null at the end.")
]


class CycleDocument(Document):
    """A recorded cycle without its cluster."""

    run: str
    decided_at: datetime
    policy: str
    reason: Annotated[str, Field(description="Code of the decision reason.")]
    detail: str
    steps: Annotated[int, Field(description="Number of steps of its plan.")]
    inputs: Annotated[
        str,
        Field(description="`dropped` if its cluster is not stored any more."),
    ]
    plans: Annotated[
        list[PlanReference],
        Field(description="Proposed or executed plans; empty if none is stored."),
    ]


class CycleList(Document):
    """Recorded cycles, the newest first."""

    cycles: list[CycleDocument]
    next: Next


class CycleStepDocument(Document):
    """A step of the decision of a cycle, and its outcome."""

    id: str
    kind: str
    guest: str | None
    source: str | None
    target: str | None
    disk: MovedDiskDocument | None = None
    depends_on: list[str]
    detail: str
    outcome: Annotated[
        str | None, Field(description="`in-progress` without one; null if not started.")
    ]
    outcome_detail: str


class RecordedViolation(Document):
    """A rule that did not hold."""

    rule: str
    strict: bool
    guests: list[str]
    nodes: list[str]


class RecordedClusterDocument(Document):
    """The cluster as it was, and the decision then made."""

    cycle: CycleDocument
    observed_at: datetime
    schedule: Annotated[
        str | None, Field(description="Entry of the schedule; null without one.")
    ]
    before: Figures
    after: Figures
    violations: list[RecordedViolation]
    notes: list[str]
    steps: list[CycleStepDocument]
    nodes: NodeColumns
    guests: GuestColumns


class LoadDocument(Document):
    """Load of a node, as fractions of its capacity."""

    cpu: float | None
    memory: float | None


class MoveEndsDocument(Document):
    """Loads of both nodes of a move."""

    source: LoadDocument | None
    target: LoadDocument | None


class MoveLoadDocument(Document):
    """Loads in the cycle that decided a move, and in the first one after it."""

    before: MoveEndsDocument
    after: MoveEndsDocument


class MoveDocument(Document):
    """A started step: prediction and result."""

    run: str
    step: str
    kind: str
    guest: str | None
    source: str | None
    target: str | None
    disk: MovedDiskDocument | None = None
    intended_at: datetime
    ended_at: datetime | None
    outcome: Outcome | None
    detail: str
    reason: Annotated[
        str | None, Field(description="Code of the decision; null if it is deleted.")
    ]
    plan: Annotated[
        PlanReference | None, Field(description="Null if it is deleted, or of `apply`.")
    ]
    predicted_seconds: float | None
    seconds: float | None
    load: MoveLoadDocument


class MovePage(Document):
    """Started steps, the newest first."""

    moves: list[MoveDocument]
    next: Next


class ClusterSeries(Document):
    """Figures of the cluster over time, oldest first, in columns."""

    at: list[datetime]
    run: list[str]
    imbalance: Annotated[
        list[float | None],
        Field(description="Imbalance of the node loads in the metric of the policy."),
    ]
    worst_node: list[str | None]
    highest_cpu: list[float | None]
    highest_memory: list[float | None]
    suffering: Annotated[
        list[int], Field(description="Guests that get too few resources.")
    ]
    violated_rules: Annotated[list[int], Field(description="Strict rules.")]
    online_nodes: list[int]
    power: Annotated[
        list[float | None],
        Field(
            description="Power of the online nodes in watts, as the policy consolidate "
            "estimates it; null with other policies."
        ),
    ]
    complete: Annotated[
        bool, Field(description="False: request again for the other points.")
    ]


class LoadSeries(Document):
    """Load over time, oldest first, in columns."""

    at: list[datetime]
    cpu: list[float | None]
    memory: list[float | None]
    complete: Annotated[
        bool, Field(description="False: request again for the other points.")
    ]
