"""State that operators set: mode, pause, circuit breakers, drains; and the audit."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt

from opendrs.api.schema.common import (
    MAX_TEXT,
    PRINTABLE,
    Document,
    IsoTime,
    RequestDocument,
)
from opendrs.api.schema.plans import Because
from opendrs.api.schema.state import BreakerDocument, PauseDocument
from opendrs.config.controller_settings import Mode
from opendrs.ports import ActionOrigin


class ModeRequest(RequestDocument):
    """The mode that the controller is to have."""

    mode: Annotated[Mode, Field(strict=False)]


class PauseRequest(RequestDocument):
    """A pause: either until a time or for some seconds."""

    until: Annotated[IsoTime | None, Field(strict=False)] = None
    seconds: Annotated[StrictFloat | StrictInt | None, Field(gt=0)] = None
    because: Because


class PauseState(Document):
    """The pause; null if the controller is not paused."""

    pause: PauseDocument | None


class BreakerState(Document):
    """The circuit breakers; null while closed."""

    breaker: BreakerDocument | None
    api_breaker: BreakerDocument | None


class DrainDocument(Document):
    """A node that an operator drains."""

    node: str
    since: datetime
    user: str
    because: str


class DrainList(Document):
    """The nodes that operators drain."""

    drains: list[DrainDocument]


class DrainRequest(RequestDocument):
    """Drain of a node."""

    because: Annotated[str, Field(max_length=MAX_TEXT, pattern=PRINTABLE)] = ""


class EventDocument(Document):
    """A log event of the controller."""

    sequence: int
    at: datetime
    level: str
    code: str
    message: str
    facts: dict[str, object]


class EventList(Document):
    """Log events, oldest first."""

    events: list[EventDocument]
    next: Annotated[
        int, Field(description="The value of `after` for the events after these.")
    ]


class AuditEntry(Document):
    """A command of an operator."""

    id: int
    at: datetime
    user: str
    command: str
    arguments: dict[str, object]
    origin: ActionOrigin
    address: str | None
    token: str | None
    result: Annotated[str, Field(description="`done`, or the code of the problem.")]


class AuditList(Document):
    """Commands of operators, the newest first."""

    actions: list[AuditEntry]
    next: Annotated[
        str | None, Field(description="Cursor of the next page; null at the end.")
    ]


class UndrainRequest(RequestDocument):
    """End of a drain."""

    bring_back: Annotated[
        bool, Field(description="Return the guests that the drain has moved.")
    ] = False
