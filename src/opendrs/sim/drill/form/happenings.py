"""What can happen in a drill file, and what each field of it holds."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, Required

from pydantic import with_config
from typing_extensions import TypedDict  # pydantic refuses the one of Python 3.11

from opendrs.ha.states import DisarmMode, Requested
from opendrs.platforms.file.wire import RuleEntries
from opendrs.sim.drill.form.words import (
    STRICT,
    Bytes,
    Cores,
    Count,
    Lax,
    Name,
    Names,
    Seconds,
    Switch,
)


@with_config(STRICT)
class OnNode(TypedDict):
    """Something that happens to nodes."""

    node: Names


@with_config(STRICT)
class Switched(TypedDict):
    """Something that is switched on or off."""

    node: Names
    state: Switch


@with_config(STRICT)
class Filed(TypedDict):
    """The cluster file system on a node."""

    node: Names
    readable: NotRequired[bool]
    consistent: NotRequired[bool]


@with_config(STRICT)
class Managed(TypedDict):
    """A manager process that ends or begins."""

    node: Names
    do: Literal["stop", "start"]


@with_config(STRICT)
class Disarmed(TypedDict):
    """All nodes disarmed."""

    mode: Annotated[DisarmMode, Lax]


@with_config(STRICT)
class Armed(TypedDict):
    """All nodes armed."""


@with_config(STRICT)
class Skipped(TypedDict):
    """Turns that all processes of a kind miss."""

    process: Literal["crm", "lrm"]
    rounds: NotRequired[Count]


@with_config(STRICT)
class Versioned(TypedDict):
    """A node with another version."""

    node: Names
    to: Name


@with_config(STRICT)
class Requesting(TypedDict):
    """Another state that is wanted."""

    guest: Names
    state: Annotated[Requested, Lax]


@with_config(STRICT)
class Moved(TypedDict):
    """Guests that go to another node."""

    guest: Names
    to: Name


@with_config(STRICT)
class Stopped(TypedDict):
    """Guests that the manager is asked to stop."""

    guest: Names
    timeout: Seconds


@with_config(STRICT)
class OnGuest(TypedDict):
    """Something that happens to guests."""

    guest: Names


@with_config(STRICT)
class Failing(TypedDict, total=False):
    """How starts, moves and stops fail."""

    starts: Count
    moves: Count
    never_stops: bool
    node: Name


@with_config(STRICT)
class GuestFailing(Failing, total=False):
    """Guests that fail from now on."""

    guest: Required[Names]


@with_config(STRICT)
class Locked(TypedDict):
    """Guests that are locked, or not any more."""

    guest: Names
    name: NotRequired[Name]


@with_config(STRICT)
class Added(TypedDict):
    """New services."""

    guest: Names
    node: Name
    state: NotRequired[Annotated[Requested, Lax]]
    running: NotRequired[bool]


@with_config(STRICT)
class Amount(TypedDict):
    """What guests use, or may use."""

    guest: Names
    cpu: NotRequired[Cores]
    memory: NotRequired[Bytes]


@with_config(STRICT)
class EventEntry(TypedDict, total=False):
    """Something that happens, and when."""

    at: Required[Seconds]
    power: Switched
    network: Switched
    files: Filed
    shutdown: OnNode
    reboot: OnNode
    maintenance: Switched
    restart_lrm: OnNode
    crm: Managed
    disarm: Disarmed
    arm: Armed
    skip_rounds: Skipped
    version: Versioned
    request: Requesting
    migrate: Moved
    relocate: Moved
    stop: Stopped
    move_by_hand: Moved
    crash: OnGuest
    fail: GuestFailing
    lock: Locked
    unlock: Locked
    add: Added
    delete: OnGuest
    limit: Amount
    usage: Amount
    rules: RuleEntries


VERBS = frozenset(EventEntry.__annotations__) - {"at"}
