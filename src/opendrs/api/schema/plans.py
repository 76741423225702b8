"""Plans with their steps, and the decisions of operators about them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from opendrs.api.schema.common import (
    MAX_NAME,
    MAX_TEXT,
    PRINTABLE,
    Document,
    MovedDiskDocument,
    RequestDocument,
)
from opendrs.api.schema.state import PlanSummaryDocument
from opendrs.ports import Outcome

StepName = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=PRINTABLE)]
Because = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_TEXT,
        pattern=PRINTABLE,
        description="Why, for the audit.",
    ),
]


class ApprovalDocument(Document):
    """Approval of a plan."""

    user: Annotated[str | None, Field(description="Null: the mode automatic.")]
    at: datetime
    steps: Annotated[list[str], Field(description="With all that they depend on.")]


class PlanStepDocument(Document):
    """A step of a plan."""

    id: str
    kind: str
    guest: str | None
    source: str | None
    target: str
    disk: MovedDiskDocument | None = None
    depends_on: list[str]
    detail: Annotated[str, Field(description="Why this guest and this node.")]
    approved: Annotated[bool | None, Field(description="Null before the approval.")]
    outcome: Outcome | None
    outcome_detail: str | None
    started_at: datetime | None
    ended_at: datetime | None
    estimated_start: Annotated[
        float | None, Field(description="Seconds after the start of the plan.")
    ]
    estimated_seconds: float | None


class PlanDocument(PlanSummaryDocument):
    """A plan with its steps. Its ETag is the digest."""

    run: str
    detail: Annotated[str, Field(description="Why it has this state.")]
    changed_at: datetime
    approval: ApprovalDocument | None
    groups: Annotated[list[list[str]], Field(description="Steps that start together.")]
    before: Annotated[
        dict[str, float | None], Field(description="Metrics before the plan.")
    ]
    after: Annotated[
        dict[str, float | None], Field(description="Predicted metrics after it.")
    ]
    steps: list[PlanStepDocument]


class PlanList(Document):
    """Plans, the newest first."""

    plans: list[PlanSummaryDocument]
    next: Annotated[
        str | None, Field(description="Cursor of the next page; null at the end.")
    ]


class ApprovalRequest(RequestDocument):
    """Approval of a plan, or of some of its steps."""

    steps: Annotated[
        list[StepName] | None,
        Field(
            max_length=10_000,
            description="Only these, with all that they depend on; null for all.",
        ),
    ] = None


class RejectionRequest(RequestDocument):
    """Rejection of a plan."""

    because: Because


class CancellationRequest(RequestDocument):
    """Cancellation of a plan."""

    because: Annotated[str, Field(max_length=MAX_TEXT, pattern=PRINTABLE)] = ""
