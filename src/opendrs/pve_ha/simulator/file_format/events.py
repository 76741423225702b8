"""The events of a drill file, and the value types of their fields."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, Required

from pydantic import BeforeValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from opendrs.config.snapshot_schema import RuleEntries
from opendrs.model import MAX_AMOUNT, SIZE, TIME
from opendrs.pve_ha.states import DisarmMode, RequestedState

MAX_SECONDS = 10**7  # seconds; four months are enough for a drill
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
    """Something that happens to nodes."""

    node: OneOrMoreNames


@with_config(STRICT)
class SwitchEvent(TypedDict):
    """Something that is switched on or off."""

    node: OneOrMoreNames
    state: OnOff


@with_config(STRICT)
class ClusterFilesEvent(TypedDict):
    """The cluster file system on a node."""

    node: OneOrMoreNames
    readable: NotRequired[bool]
    consistent: NotRequired[bool]


@with_config(STRICT)
class CrmEvent(TypedDict):
    """A manager process that ends or begins."""

    node: OneOrMoreNames
    do: Literal["stop", "start"]


@with_config(STRICT)
class DisarmEvent(TypedDict):
    """All nodes disarmed."""

    mode: Annotated[DisarmMode, LENIENT]


@with_config(STRICT)
class ArmEvent(TypedDict):
    """All nodes armed."""


@with_config(STRICT)
class SkipRoundsEvent(TypedDict):
    """Turns that all processes of a kind miss."""

    process: Literal["crm", "lrm"]
    rounds: NotRequired[Count]


@with_config(STRICT)
class VersionEvent(TypedDict):
    """A node with another version."""

    node: OneOrMoreNames
    to: Name


@with_config(STRICT)
class RequestEvent(TypedDict):
    """Another state that is wanted."""

    guest: OneOrMoreNames
    state: Annotated[RequestedState, LENIENT]


@with_config(STRICT)
class MoveEvent(TypedDict):
    """Guests that go to another node."""

    guest: OneOrMoreNames
    to: Name


@with_config(STRICT)
class StopEvent(TypedDict):
    """Guests that the manager is asked to stop."""

    guest: OneOrMoreNames
    timeout: Seconds


@with_config(STRICT)
class GuestEvent(TypedDict):
    """Something that happens to guests."""

    guest: OneOrMoreNames


@with_config(STRICT)
class FailureEntry(TypedDict, total=False):
    """How starts, moves and stops fail."""

    starts: Count
    moves: Count
    never_stops: bool
    node: Name


@with_config(STRICT)
class FailEvent(FailureEntry, total=False):
    """Guests that fail from now on."""

    guest: Required[OneOrMoreNames]


@with_config(STRICT)
class LockEvent(TypedDict):
    """Guests that are locked, or not any more."""

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
    """What guests use, or may use."""

    guest: OneOrMoreNames
    cpu: NotRequired[Cores]
    memory: NotRequired[Bytes]


@with_config(STRICT)
class EventEntry(TypedDict, total=False):
    """Something that happens, and when."""

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
