"""Nodes, guests, rules, reasons, explanations, consolidation and settings."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue

from opendrs.api.schema.common import Document, MovedDiskDocument
from opendrs.api.schema.history import LoadSeries, MoveDocument
from opendrs.api.schema.operator import DrainDocument
from opendrs.controller.views.rule_states import RuleState
from opendrs.ports import PlanState

Facts = Annotated[
    dict[str, str | float | None],
    Field(
        description="Values by name; CPU in cores, memory in bytes, rates in bytes/s."
    ),
]


class ExplanationDocument(Document):
    """Explanation of a decision, a step, a node or a guest."""

    subject: str
    code: Annotated[
        str,
        Field(
            description="Decision reason, skip reason, or `in-plan` (an open plan "
            "migrates it), `planned` (the decision of the cycle did), `not-chosen`, "
            "`no-feasible-node`, `immovable`, `node`."
        ),
    ]
    answer: str
    details: list[str]
    change: Annotated[
        str | None, Field(description="What would have to change; null if nothing.")
    ]


class RuleDocument(Document):
    """A placement rule and its state."""

    rule: Annotated[str, Field(description="Its name, or a description.")]
    name: str
    kind: str
    strict: bool
    origin: str
    guests: Annotated[list[str], Field(description="Guests that it binds.")]
    nodes: Annotated[list[str], Field(description="Nodes that it names.")]
    state: RuleState
    detail: str
    violating_guests: list[str]
    violating_nodes: list[str]
    repair: Annotated[
        str | None, Field(description="What repairs it; null if nothing is to be.")
    ]


class RuleList(Document):
    """The rules of the newest recorded cycle."""

    run: str | None
    decided_at: datetime | None
    rules: list[RuleDocument]
    tolerated_failures: Annotated[
        int, Field(description="Nodes, any, whose failure the limits want tolerated.")
    ]
    tolerated_domain: Annotated[
        str | None,
        Field(
            description="Key of the domains, such as rack, whose failure the limits "
            "want tolerated; null for none. The job `what-if` evaluates the failures."
        ),
    ]


class PlannedStepDocument(Document):
    """A step of an open plan that has not ended."""

    plan: str
    plan_state: PlanState
    step: str
    kind: str
    guest: str | None
    source: str | None
    target: str
    disk: MovedDiskDocument | None = None
    detail: Annotated[str, Field(description="Why this guest and this node.")]
    running: Annotated[bool, Field(description="False if it has not started.")]


Planned = Annotated[
    list[PlannedStepDocument],
    Field(
        description="Steps of plans that are proposed, approved or running; empty if "
        "a cycle is named."
    ),
]


class NodeDocument(Document):
    """A node."""

    id: str
    run: Annotated[str, Field(description="The cycle that it is shown in.")]
    decided_at: datetime
    state: str
    drain: Annotated[
        DrainDocument | None, Field(description="Null if no operator drains it.")
    ]
    facts: Facts
    guests: list[str]
    arriving: Annotated[list[str], Field(description="Guests that migrate to it.")]
    planned: Planned
    series: Annotated[
        LoadSeries, Field(description="Fractions of its capacity over time.")
    ]
    rules: list[RuleDocument]
    moves: list[MoveDocument]
    explanation: ExplanationDocument | None


class GuestDocument(Document):
    """A guest."""

    id: str
    run: Annotated[str, Field(description="The cycle that it is shown in.")]
    decided_at: datetime
    node: str
    migrating_to: str | None
    state: str
    facts: Facts
    planned: Planned
    series: Annotated[LoadSeries, Field(description="Cores and bytes over time.")]
    rules: list[RuleDocument]
    moves: list[MoveDocument]
    explanation: ExplanationDocument | None


class ReasonDocument(Document):
    """A reason why guests stay, or why nodes receive no guests."""

    code: str
    detail: str
    change: Annotated[str | None, Field(description="What would have to change.")]
    guests: list[str]
    nodes: list[str]


class ReasonList(Document):
    """Reasons of a cycle."""

    run: str | None
    decided_at: datetime | None
    reasons: list[ReasonDocument]


class ExcludedNodes(Document):
    """Nodes that were no target of a guest, for one cause."""

    detail: Annotated[
        str, Field(description="The rule, guests or memory that excludes them.")
    ]
    nodes: list[str]


class RunExplanation(ExplanationDocument):
    """Explanation with its cycle."""

    run: str
    decided_at: datetime
    excluded: Annotated[
        list[ExcludedNodes] | None,
        Field(description="Of a guest or a step that moves one; else null."),
    ]


class SleepingNode(Document):
    """A node that is off."""

    node: str
    since: Annotated[
        datetime | None, Field(description="Its last power-off, if it is recorded.")
    ]


class PowerActionDocument(Document):
    """A power action."""

    node: str
    kind: str
    run: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    detail: str


class ConsolidationDocument(Document):
    """Power of the cluster and nodes that are off."""

    run: str
    decided_at: datetime
    policy: str
    consolidates: Annotated[
        bool, Field(description="True if the policy is consolidate.")
    ]
    power: Annotated[
        float | None, Field(description="Watts that the policy estimates; else null.")
    ]
    power_after: Annotated[float | None, Field(description="The same after its plan.")]
    online_nodes: int
    states: Annotated[
        dict[str, int], Field(description="Number of nodes by state; together all.")
    ]
    empty_nodes: list[str]
    sleeping: list[SleepingNode]
    actions: Annotated[
        list[PowerActionDocument], Field(description="The newest first.")
    ]


class SettingDocument(Document):
    """A setting of the configuration."""

    path: Annotated[str, Field(examples=["limits.cooldown"])]
    value: JsonValue
    default: Annotated[bool, Field(description="The file does not set it.")]
    file: str | None
    line: int | None


class SettingList(Document):
    """The settings; secrets are `***`."""

    file: str | None
    settings: list[SettingDocument]
