"""Schema of the format opendrs-snapshot/1 for pydantic."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict  # pydantic rejects that of Python 3.11

from opendrs.config.rule_schema import (
    AntiAffinityEntry,
    GuestPriorityEntry,
    NodeAffinityEntry,
    RuleEntries,
    TagExclusionEntry,
)
from opendrs.config.schema_types import (
    STRICT,
    Amount,
    Bytes,
    Coerced,
    Fraction,
    Name,
    NameSet,
    Timestamp,
)
from opendrs.model import (
    MAX_AMOUNT,
    MIN_CPU,
    RATE,
    SIZE,
    TIME,
    GuestKind,
    GuestState,
    Mobility,
    NodeState,
)

FORMAT = "opendrs-snapshot/1"


@with_config(STRICT)
class CapacityEntry(TypedDict):
    """Capacity of a node."""

    cpu: Annotated[
        float, Field(ge=MIN_CPU, le=MAX_AMOUNT, description="Processor cores.")
    ]
    memory: Annotated[
        int, Field(gt=0, le=MAX_AMOUNT), SIZE, Field(description="Memory in bytes.")
    ]


@with_config(STRICT)
class LimitEntry(TypedDict):
    """Limit of a guest."""

    cpu: Annotated[Amount, Field(description="Processor cores; 0 for no limit.")]
    memory: Annotated[Bytes, Field(description="Memory in bytes.")]


@with_config(STRICT)
class UsageEntry(TypedDict, total=False):
    """Current usage; values that were not measured are absent."""

    cpu: Annotated[Amount, Field(description="Busy processor cores.")]
    memory: Annotated[Bytes, Field(description="Memory in use, in bytes.")]


@with_config(STRICT)
class StallEntry(TypedDict, total=False):
    """Share of time in which tasks were stalled for a resource (PSI)."""

    some: Annotated[
        Fraction, Field(description="Fraction of time in which a task was stalled.")
    ]
    full: Annotated[
        Fraction, Field(description="Fraction of time in which all tasks were stalled.")
    ]


@with_config(STRICT)
class PressureEntry(TypedDict, total=False):
    """Pressure stall information (PSI) for each resource."""

    cpu: StallEntry
    memory: StallEntry
    io: StallEntry


@with_config(STRICT)
class AllocationEntry(TypedDict, total=False):
    """Limits of the platform on what it allocates to guests."""

    cpu_ratio: Annotated[
        Amount, Field(description="Most virtual cores per processor core.")
    ]
    memory_ratio: Annotated[
        Amount, Field(description="Most allocated memory per memory.")
    ]
    reserved_cpu: Annotated[
        Amount, Field(description="Processor cores that guests do not get.")
    ]
    reserved_memory: Annotated[
        Bytes, Field(description="Bytes of memory that guests do not get.")
    ]


@with_config(STRICT)
class StorageEntry(TypedDict):
    """A storage for the disks of guests."""

    id: Annotated[Name, Field(description="Name; shared by all nodes if shared.")]
    shared: NotRequired[
        Annotated[bool, Field(description="True if other nodes use it as well.")]
    ]
    capacity: NotRequired[Annotated[Bytes, Field(description="Total bytes.")]]
    free: NotRequired[Annotated[Bytes, Field(description="Free bytes.")]]


@with_config(STRICT)
class DiskEntry(TypedDict):
    """A disk of a guest."""

    storage: Annotated[Name, Field(description="Name of its storage.")]
    size: NotRequired[
        Annotated[Bytes, Field(description="Bytes that a copy of it occupies.")]
    ]
    target_storage: NotRequired[
        Annotated[Name, Field(description="Storage of copies, if it is another one.")]
    ]
    name: NotRequired[
        Annotated[Name, Field(description="Name by which the platform can move it.")]
    ]
    moving_to: NotRequired[
        Annotated[Name, Field(description="Storage that it is being moved to.")]
    ]


@with_config(STRICT)
class ForecastEntry(TypedDict, total=False):
    """Mean usage over the next hours; values that are not forecast are absent."""

    expected: UsageEntry
    upper: UsageEntry


LoadAmountEntries = dict[Name, Amount]


@with_config(STRICT)
class NodeEntry(TypedDict, total=False):
    """A hypervisor host."""

    capacity: CapacityEntry
    usage: UsageEntry
    state: Annotated[
        NodeState,
        Coerced,
        Field(description="Only an online node receives guests; unknown if absent."),
    ]
    architecture: Annotated[
        str, Field(description="Instruction set, such as x86_64 or aarch64.")
    ]
    cpu_model: Annotated[
        str, Field(description="Processor model as named by the hypervisor.")
    ]
    labels: Annotated[
        NameSet, Field(description="Labels that the operator gave the host.")
    ]
    load_average: Annotated[
        Amount, Field(description="Runnable tasks, averaged over one minute.")
    ]
    pressure: PressureEntry
    ksm_shared: Annotated[
        Bytes, Field(description="Bytes saved by merging equal memory pages (KSM).")
    ]
    powered_on_at: Annotated[Timestamp, Field(description="Time of the last power-on.")]
    allocation: AllocationEntry
    groups: Annotated[
        NameSet, Field(description="Groups of nodes, such as host aggregates.")
    ]
    failure_domain: Annotated[
        Name, Field(description="Domain that fails as a whole, such as a rack.")
    ]
    storages: Annotated[
        list[StorageEntry], Field(description="Storages that the node can use.")
    ]
    jobs: Annotated[
        list[Name], Field(description="Jobs in progress on the node, such as backup.")
    ]
    loads: Annotated[
        LoadAmountEntries,
        Field(description="Amounts of further loads, such as network; with guests."),
    ]
    load_capacities: Annotated[
        dict[Name, Annotated[float, Field(gt=0, le=MAX_AMOUNT)]],
        Field(description="Capacity of each further load, in the unit of the load."),
    ]


@with_config(STRICT)
class GuestEntry(TypedDict):
    """A virtual machine or a system container."""

    node: Annotated[Name, Field(description="Node of the guest.")]
    kind: Annotated[GuestKind, Coerced, Field(description="Kind of guest.")]
    state: NotRequired[
        Annotated[GuestState, Coerced, Field(description="State; unknown if absent.")]
    ]
    limit: NotRequired[LimitEntry]
    usage: NotRequired[UsageEntry]
    pressure: NotRequired[PressureEntry]
    uptime: NotRequired[
        Annotated[Amount, TIME, Field(description="Seconds since it started.")]
    ]
    mobility: NotRequired[
        Annotated[
            Mobility,
            Coerced,
            Field(description="Way in which the guest can migrate."),
        ]
    ]
    mobility_detail: NotRequired[
        Annotated[str, Field(description="Reason why it cannot migrate live.")]
    ]
    ha_managed: NotRequired[
        Annotated[bool, Field(description="True if an HA manager restarts the guest.")]
    ]
    tags: NotRequired[
        Annotated[NameSet, Field(description="Tags that the operator gave the guest.")]
    ]
    cpu_model: NotRequired[
        Annotated[str, Field(description="Processor model of nodes it depends on.")]
    ]
    migrating_to: NotRequired[
        Annotated[Name, Field(description="Target of a migration in progress.")]
    ]
    migrated_at: NotRequired[
        Annotated[Timestamp, Field(description="Time of the last migration.")]
    ]
    dirty_rate: NotRequired[
        Annotated[
            Amount,
            RATE,
            Field(description="Bytes of memory that it writes per second."),
        ]
    ]
    managed_by: NotRequired[
        Annotated[
            Name,
            Field(description="Program that decides on its placement instead."),
        ]
    ]
    lock: NotRequired[
        Annotated[
            Name,
            Field(description="Operation of the platform that locks the guest."),
        ]
    ]
    disks: NotRequired[
        Annotated[list[DiskEntry], Field(description="Disks of the guest.")]
    ]
    forecast: NotRequired[ForecastEntry]
    loads: NotRequired[
        Annotated[
            LoadAmountEntries,
            Field(description="Amounts of further loads, such as network."),
        ]
    ]


@with_config(STRICT)
class SnapshotFrame(TypedDict):
    """A snapshot of which nodes, guests and rules are validated separately."""

    format: Literal["opendrs-snapshot/1"]
    taken_at: Annotated[Timestamp, Field(description="Time of the observation.")]
    nodes: dict[str, Any]
    guests: dict[str, Any]
    rules: NotRequired[list[Any]]
    bandwidth: NotRequired[
        Annotated[
            Amount,
            RATE,
            Field(gt=0, description="Bytes per second of live migrations."),
        ]
    ]


@with_config(STRICT)
class SnapshotEntry(SnapshotFrame):
    """State of a cluster at one instant."""

    nodes: Annotated[dict[Name, NodeEntry], Field(description="Every node by name.")]
    guests: Annotated[
        dict[Name, GuestEntry],
        Field(description="Every guest by name, such as vm:101."),
    ]
    rules: NotRequired[
        Annotated[RuleEntries, Field(description="The placement rules in force.")]
    ]


SNAPSHOT = TypeAdapter(SnapshotEntry)
SNAPSHOT_FRAME = TypeAdapter(SnapshotFrame)
FIELDS = frozenset(
    field
    for entry in (
        SnapshotEntry,
        NodeEntry,
        GuestEntry,
        CapacityEntry,
        PressureEntry,
        StallEntry,
        AllocationEntry,
        StorageEntry,
        DiskEntry,
        ForecastEntry,
        NodeAffinityEntry,
        AntiAffinityEntry,
        TagExclusionEntry,
        GuestPriorityEntry,
    )
    for field in entry.__annotations__
)
