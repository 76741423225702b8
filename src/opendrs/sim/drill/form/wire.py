"""The form opendrs-drill/1, field by field; what happens is in `happenings`."""

from __future__ import annotations

from typing import Annotated, Literal, Required

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict  # pydantic refuses the one of Python 3.11

from opendrs.ha.states import Requested
from opendrs.policies.base import MOST_UNEVEN
from opendrs.sim.drill.form import happenings
from opendrs.sim.drill.form.happenings import EventEntry, Failing
from opendrs.sim.drill.form.words import (
    STRICT,
    Count,
    Fraction,
    Lax,
    Name,
    Names,
    Seconds,
    Several,
)

FORMAT = "opendrs-drill/1"


@with_config(STRICT)
class DefaultsEntry(TypedDict, total=False):
    """What is wanted of all services."""

    state: Annotated[Requested, Lax]
    failback: bool
    max_restart: Count
    max_relocate: Count


@with_config(STRICT)
class ServiceEntry(DefaultsEntry, total=False):
    """What is wanted of one service."""

    lock: Name
    fails: Failing
    managed: bool


@with_config(STRICT)
class DatacenterEntry(TypedDict, total=False):
    """Settings of the HA manager."""

    scheduler: Literal["basic", "static", "dynamic"]
    shutdown_policy: Literal["conditional", "freeze", "failover", "migrate"]
    rebalance_on_start: bool
    auto_rebalance: bool
    threshold: Annotated[float, Field(ge=0, le=MOST_UNEVEN)]
    method: Literal["bruteforce", "topsis"]
    hold: Count
    margin: Fraction


@with_config(STRICT)
class ExpectEntry(TypedDict, total=False):
    """What is expected, of whom, and when."""

    at: Seconds
    since: Seconds
    guest: Names
    node: Names
    runs_on: Names
    running: bool
    state: Name
    down_at_most: Seconds
    down_at_least: Seconds
    moved: bool
    started: bool
    fenced: bool
    together: Several
    apart: Several
    log: Name
    no_log: Name


@with_config(STRICT)
class DrillEntry(TypedDict, total=False):
    """A cluster, what happens to it, and what is expected."""

    format: Required[Literal["opendrs-drill/1"]]
    title: str
    description: str
    snapshot: Required[object]
    defaults: DefaultsEntry
    services: dict[Name, ServiceEntry]
    datacenter: DatacenterEntry
    events: list[EventEntry]
    expect: list[ExpectEntry]
    log: Name
    until: Seconds


DRILL = TypeAdapter(DrillEntry)
FIELDS = frozenset(
    field
    for entry in (
        DrillEntry,
        ServiceEntry,
        DatacenterEntry,
        ExpectEntry,
        EventEntry,
        happenings.GuestFailing,
        happenings.Filed,
        happenings.Managed,
        happenings.Disarmed,
        happenings.Skipped,
        happenings.Moved,
        happenings.Stopped,
        happenings.Added,
        happenings.Amount,
    )
    for field in entry.__annotations__
)
