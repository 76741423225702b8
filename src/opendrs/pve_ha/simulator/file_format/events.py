"""Events of a drill file, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, Required

from pydantic import BeforeValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from opendrs.config.rule_schema import RuleEntries
from opendrs.model import MAX_AMOUNT, SIZE, TIME
from opendrs.pve_ha.states import DisarmMode, RequestedState

MAX_SECONDS = 10**7  # about four months
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


LENIENT = Field(strict=False)
Name = Annotated[str, Field(min_length=1)]
OneOrMoreNames = Annotated[list[Name], BeforeValidator(_as_list), Field(min_length=1)]
TwoOrMoreNames = Annotated[list[Name], Field(min_length=2)]
Count = Annotated[int, Field(ge=0, le=MAX_SECONDS)]
Seconds = Annotated[int, Field(ge=0, le=MAX_SECONDS), TIME]
Cores = Annotated[float, Field(ge=0, le=MAX_AMOUNT)]
Bytes = Annotated[int, Field(ge=0, le=MAX_AMOUNT), SIZE]
Fraction = Annotated[float, Field(ge=0, le=1)]
OnOff = Literal["on", "off"]


@with_config(STRICT)
class NodeEvent(TypedDict):
    """An event of nodes without parameters."""

    node: OneOrMoreNames


@with_config(STRICT)
class SwitchEvent(TypedDict):
    """Power, network or maintenance of nodes, switched on or off."""

    node: OneOrMoreNames
    state: OnOff


@with_config(STRICT)
class ClusterFilesEvent(TypedDict):
    """State of the cluster file system on nodes."""

    node: OneOrMoreNames
    readable: NotRequired[bool]
    consistent: NotRequired[bool]


@with_config(STRICT)
class CrmEvent(TypedDict):
    """Stop or start of a CRM."""

    node: OneOrMoreNames
    do: Literal["stop", "start"]


@with_config(STRICT)
class DisarmEvent(TypedDict):
    """Disarming of the HA stack."""

    mode: Annotated[DisarmMode, LENIENT]


@with_config(STRICT)
class ArmEvent(TypedDict):
    """Arming of the HA stack."""


@with_config(STRICT)
class SkipRoundsEvent(TypedDict):
    """Rounds that all processes of a kind skip."""

    process: Literal["crm", "lrm"]
    rounds: NotRequired[Count]


@with_config(STRICT)
class VersionEvent(TypedDict):
    """Change of the version of pve-manager on nodes."""

    node: OneOrMoreNames
    to: Name


@with_config(STRICT)
class RequestEvent(TypedDict):
    """Change of the requested state of guests."""

    guest: OneOrMoreNames
    state: Annotated[RequestedState, LENIENT]


@with_config(STRICT)
class MoveEvent(TypedDict):
    """Move of guests to another node."""

    guest: OneOrMoreNames
    to: Name


@with_config(STRICT)
class StopEvent(TypedDict):
    """Request to the manager to stop guests."""

    guest: OneOrMoreNames
    timeout: Seconds


@with_config(STRICT)
class GuestEvent(TypedDict):
    """An event of guests without parameters."""

    guest: OneOrMoreNames


@with_config(STRICT)
class FailureEntry(TypedDict, total=False):
    """Failures of starts, moves and stops."""

    starts: Count
    moves: Count
    never_stops: bool
    node: Name


@with_config(STRICT)
class FailEvent(FailureEntry, total=False):
    """Guests whose operations fail from now on."""

    guest: Required[OneOrMoreNames]


@with_config(STRICT)
class LockEvent(TypedDict):
    """Lock or unlock of guests."""

    guest: OneOrMoreNames
    name: NotRequired[Name]


@with_config(STRICT)
class AddEvent(TypedDict):
    """New services."""

    guest: OneOrMoreNames
    node: Name
    state: NotRequired[Annotated[RequestedState, LENIENT]]
    running: NotRequired[bool]


@with_config(STRICT)
class AmountEvent(TypedDict):
    """Limits or usage of guests."""

    guest: OneOrMoreNames
    cpu: NotRequired[Cores]
    memory: NotRequired[Bytes]


@with_config(STRICT)
class EventEntry(TypedDict, total=False):
    """An event and its time."""

    at: Required[Seconds]
    power: SwitchEvent
    network: SwitchEvent
    files: ClusterFilesEvent
    shutdown: NodeEvent
    reboot: NodeEvent
    maintenance: SwitchEvent
    restart_lrm: NodeEvent
    crm: CrmEvent
    disarm: DisarmEvent
    arm: ArmEvent
    skip_rounds: SkipRoundsEvent
    version: VersionEvent
    request: RequestEvent
    migrate: MoveEvent
    relocate: MoveEvent
    stop: StopEvent
    move_by_hand: MoveEvent
    crash: GuestEvent
    fail: FailEvent
    lock: LockEvent
    unlock: LockEvent
    add: AddEvent
    delete: GuestEvent
    limit: AmountEvent
    usage: AmountEvent
    rules: RuleEntries


EVENT_KINDS = frozenset(EventEntry.__annotations__) - {"at"}
