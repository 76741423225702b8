"""Questions that take long, and their answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)

from opendrs.api.jobs import JobProblem, JobState
from opendrs.api.schema.common import MAX_NAME, Document, RequestDocument

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Names = Annotated[list[Name], Field(max_length=1_000, default_factory=list)]
Number = StrictFloat | StrictInt
Amount = Annotated[Number | None, Field(gt=0, le=1e18)]
Run = Annotated[
    Name | None, Field(description="The cycle whose cluster it is about; the newest.")
]
PolicySettings = Annotated[
    dict[Name, JsonValue],
    Field(
        max_length=100,
        default_factory=dict,
        description="Settings that override the configured ones.",
    ),
]


class GuestSizeRequest(RequestDocument):
    """Size of additional guests; the median of the guests without one."""

    cpu: Amount = None
    memory: Amount = None
    like: Name | None = None


class WhatIfRequest(RequestDocument):
    """The cluster after changes: do all guests fit, which failures are tolerated."""

    kind: Literal["what-if"]
    run: Run = None
    add: Annotated[
        Names, Field(description="Nodes such as `3xnode1`: three like node1.")
    ]
    remove: Names
    fail: Annotated[
        Names,
        Field(
            description="Nodes, or failure domains such as `rack=r1`: all its nodes."
        ),
    ]
    growth: Annotated[
        Number, Field(ge=-1, le=100, description="Of the use; 0.2 is 20 % more.")
    ] = 0.0
    policy: Annotated[
        Name | None, Field(description="Show also the load after its plan.")
    ] = None
    settings: PolicySettings
    guest: GuestSizeRequest = GuestSizeRequest()


class PlaceRequest(RequestDocument):
    """The best nodes for the start of guests."""

    kind: Literal["place"]
    run: Run = None
    cpu: Amount = None
    memory: Amount = None
    like: Name | None = None
    tags: Names
    count: Annotated[StrictInt, Field(ge=1, le=1_000)] = 1


class DrainPreviewRequest(RequestDocument):
    """The plan of a drain, the load of the targets afterwards, guests that stay."""

    kind: Literal["drain-preview"]
    run: Run = None
    node: Name


class ReplayRequest(RequestDocument):
    """The decision of a policy about a recorded cluster."""

    kind: Literal["replay"]
    run: Run = None
    policy: Annotated[
        Name | None, Field(description="Null: decide again with the recorded inputs.")
    ] = None
    settings: PolicySettings


class BacktestRequest(RequestDocument):
    """Policies over the recorded load."""

    kind: Literal["backtest"]
    policies: Annotated[
        list[Name],
        Field(
            max_length=10,
            default_factory=list,
            description="At least one, unless `schedule` is true.",
        ),
    ]
    schedule: Annotated[
        StrictBool,
        Field(
            description="Run the configured schedule, too: its policies at their "
            "times, as one row."
        ),
    ] = False
    settings: Annotated[
        dict[Name, dict[Name, JsonValue]],
        Field(max_length=10, default_factory=dict, description="By policy."),
    ]
    since: Annotated[
        Number | None, Field(gt=0, le=1e8, description="Seconds; null for all.")
    ] = None
    every: Annotated[
        Number, Field(ge=0, le=1e8, description="Seconds between decisions.")
    ] = 0.0

    @model_validator(mode="after")
    def _require_rows(self) -> Self:
        if not self.policies and not self.schedule:
            raise ValueError("policies: expected at least one, or schedule, got none")
        return self


class DrillRequest(RequestDocument):
    """Failure of nodes under the HA manager; without nodes, of each one alone."""

    kind: Literal["drill"]
    run: Run = None
    nodes: Names
    assume_ha: Annotated[
        bool, Field(description="Treat all guests as managed by the HA manager.")
    ] = False


JobRequest = Annotated[
    WhatIfRequest
    | PlaceRequest
    | DrainPreviewRequest
    | ReplayRequest
    | BacktestRequest
    | DrillRequest,
    Field(discriminator="kind"),
]


class JobDocument(Document):
    """A job. Its result is kept for an hour."""

    id: str
    kind: str
    state: JobState
    arguments: dict[str, JsonValue]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    progress: Annotated[
        str, Field(description="What is done while it runs; empty if unknown.")
    ]
    problem: JobProblem | None
    detail: str
    result: Annotated[
        JsonValue,
        Field(description="As the command of the same name with `--format json`."),
    ]


class JobSummary(Document):
    """A job without its result."""

    id: str
    kind: str
    state: JobState
    created_at: datetime
    ended_at: datetime | None
    progress: str


class JobList(Document):
    """Jobs, the newest first."""

    jobs: list[JobSummary]
