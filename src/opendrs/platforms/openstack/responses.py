"""Responses of Nova and Placement, validated.

Fields that OpenDRS does not read are ignored. A field with a default may be absent: of
a cell that does not respond, Nova lists only the ids.

Source:
    Compute API reference, microversions 2.79 and 2.96; Placement API reference,
    microversion 1.14.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from opendrs.errors import UnexpectedResponseError

_Amount = Annotated[int, Field(ge=0, le=10**15)]
_Text = Annotated[str, Field(max_length=4_096)]


def _with_zone(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


_Time = Annotated[datetime, AfterValidator(_with_zone)]  # Nova omits the zone: UTC


class CloudResponse(BaseModel):
    """Object in a response."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ComputeService(CloudResponse):
    """The service nova-compute of a host."""

    id: _Text = ""
    host: _Text
    zone: str | None = None
    status: str = ""
    state: str | None = None
    forced_down: bool = False
    disabled_reason: str | None = None


class HypervisorService(CloudResponse):
    """Reference to the service of a hypervisor."""

    host: _Text


class Hypervisor(CloudResponse):
    """Compute node; its id is that of its resource provider."""

    id: _Text
    hypervisor_type: str | None = None
    service: HypervisorService


class Flavor(CloudResponse):
    """Flavor of a server: cores, and sizes in MiB (ram, swap) and GiB."""

    vcpus: _Amount
    ram: _Amount
    disk: _Amount = 0
    ephemeral: _Amount = 0
    swap: _Amount = 0
    extra_specs: Mapping[str, str] = {}


class Server(CloudResponse):
    """Server, with the attributes for administrators."""

    id: _Text
    name: str | None = None
    project: str = Field("", alias="tenant_id")
    flavor: Flavor | None = None
    image: object = None
    metadata: Mapping[str, str] = {}
    tags: tuple[str, ...] = ()
    locked: bool = False
    locked_reason: str | None = None
    pinned_availability_zone: str | None = None
    zone: str | None = Field(None, alias="OS-EXT-AZ:availability_zone")
    host: str | None = Field(None, alias="OS-EXT-SRV-ATTR:host")
    vm_state: str | None = Field(None, alias="OS-EXT-STS:vm_state")
    task_state: str | None = Field(None, alias="OS-EXT-STS:task_state")
    power_state: int | None = Field(None, alias="OS-EXT-STS:power_state")
    launched_at: _Time | None = Field(None, alias="OS-SRV-USG:launched_at")
    volumes: tuple[Mapping[str, object], ...] = Field(
        (), alias="os-extended-volumes:volumes_attached"
    )

    @property
    def has_known_pin(self) -> bool:
        """Return whether the response says to which zone the server is pinned."""
        return "pinned_availability_zone" in self.model_fields_set


class ServerGroupRules(CloudResponse):
    """Rules of a server group."""

    max_server_per_host: Annotated[int, Field(ge=1)] | None = None


class ServerGroup(CloudResponse):
    """Server group; its members may include deleted servers."""

    id: _Text
    name: str
    policy: str
    rules: ServerGroupRules = ServerGroupRules()
    members: tuple[str, ...] = ()


class Aggregate(CloudResponse):
    """Host aggregate."""

    name: str
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}


class MigrationRecord(CloudResponse):
    """Record of a migration; it stays after the end of the migration."""

    id: int
    uuid: str = ""
    status: str
    migration_type: str | None = None
    instance_uuid: str = ""
    source_compute: str | None = None
    dest_compute: str | None = None
    created_at: _Time | None = None
    updated_at: _Time | None = None


class LiveMigrationProgress(CloudResponse):
    """Live migration in progress, with bytes of memory and disks."""

    id: int
    status: str
    dest_compute: str | None = None
    memory_total_bytes: _Amount | None = None
    memory_remaining_bytes: _Amount | None = None
    disk_total_bytes: _Amount | None = None
    disk_remaining_bytes: _Amount | None = None


class ServerAction(CloudResponse):
    """Operation on a server."""

    action: str
    request_id: _Text


class ServerActionEvent(CloudResponse):
    """Part of an operation on a server; `details` is the error."""

    event: str
    result: str | None = None
    details: str | None = None


class Inventory(CloudResponse):
    """Amount of one resource class on a resource provider."""

    total: _Amount
    reserved: _Amount = 0
    allocation_ratio: Annotated[float, Field(gt=0, le=1e6)] = 1.0


class ResourceProvider(CloudResponse):
    """Inventories, allocated amounts and traits of a resource provider."""

    inventories: Mapping[str, Inventory]
    usages: Mapping[str, _Amount]
    traits: tuple[str, ...]


ResponseT = TypeVar("ResponseT", bound=CloudResponse)


def parse_response(kind: type[ResponseT], value: object) -> ResponseT:
    """Return *value* as an object of *kind*.

    Raises:
        UnexpectedResponseError: It is none; with the first error.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (kind.__name__, *first["loc"])))
        raise UnexpectedResponseError(f"{place}: {first['msg']}") from None


def parse_all(kind: type[ResponseT], values: Iterable[object]) -> tuple[ResponseT, ...]:
    """Return *values* as objects of *kind*.

    Raises:
        UnexpectedResponseError: One of them is none; with the first error.
    """
    return tuple(parse_response(kind, value) for value in values)
