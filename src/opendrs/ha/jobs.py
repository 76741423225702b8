"""What an agent has done, and what it makes of how that ended."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.states import ServiceState
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do about a service, on the node of the agent.

    Attributes:
        service: The service.
        command: What is to be done: the state it is in.
        uid: What the manager knows the job by; None when it does not.
        target: Where it moves to.
        timeout: Seconds it may take to stop.
    """

    service: ServiceId
    command: ServiceState
    uid: str | None = None
    target: NodeId | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Attributes:
        code: Its exit code, an `ExitCode`.
        told: What happened meanwhile.
        delay: Seconds it took.
    """

    code: int
    told: tuple[Event, ...] = ()
    delay: int = 0
