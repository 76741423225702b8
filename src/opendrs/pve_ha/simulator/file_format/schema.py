"""Schema of opendrs-drill/1, except the events in `events`."""

from __future__ import annotations

from typing import Annotated, Literal, Required

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from opendrs.policies.base import MAX_IMBALANCE
from opendrs.pve_ha.simulator.file_format import events
from opendrs.pve_ha.simulator.file_format.events import (
    LENIENT,
    STRICT,
    Count,
    EventEntry,
    FailureEntry,
    Fraction,
    Name,
    OneOrMoreNames,
    Seconds,
    TwoOrMoreNames,
)
from opendrs.pve_ha.states import RequestedState

FORMAT = "opendrs-drill/1"


@with_config(STRICT)
class DefaultsEntry(TypedDict, total=False):
    """Requested configuration of all services."""

    state: Annotated[RequestedState, LENIENT]
    failback: bool
    max_restart: Count
    max_relocate: Count


@with_config(STRICT)
class ServiceEntry(DefaultsEntry, total=False):
    """Requested configuration of one service."""

    lock: Name
    fails: FailureEntry
    managed: bool


@with_config(STRICT)
class DatacenterEntry(TypedDict, total=False):
    """Settings of the HA manager."""

    scheduler: Literal["basic", "static", "dynamic"]
    shutdown_policy: Literal["conditional", "freeze", "failover", "migrate"]
    rebalance_on_start: bool
    auto_rebalance: bool
    threshold: Annotated[float, Field(ge=0, le=MAX_IMBALANCE)]
    method: Literal["bruteforce", "topsis"]
    hold: Count
    margin: Fraction


@with_config(STRICT)
class ExpectEntry(TypedDict, total=False):
    """An expected result, with its subject and time."""

    at: Seconds
    since: Seconds
    guest: OneOrMoreNames
    node: OneOrMoreNames
    runs_on: OneOrMoreNames
    running: bool
    state: Name
    down_at_most: Seconds
    down_at_least: Seconds
    moved: bool
    started: bool
    fenced: bool
    together: TwoOrMoreNames
    apart: TwoOrMoreNames
    log: Name
    no_log: Name


@with_config(STRICT)
class DrillEntry(TypedDict, total=False):
    """A cluster, its events, and the expected results."""

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


DRILL_ADAPTER = TypeAdapter(DrillEntry)
FIELDS = frozenset(
    field
    for entry in (
        DrillEntry,
        ServiceEntry,
        DatacenterEntry,
        ExpectEntry,
        EventEntry,
        events.FailEvent,
        events.ClusterFilesEvent,
        events.CrmEvent,
        events.DisarmEvent,
        events.SkipRoundsEvent,
        events.MoveEvent,
        events.StopEvent,
        events.AddEvent,
        events.AmountEvent,
    )
    for field in entry.__annotations__
)
