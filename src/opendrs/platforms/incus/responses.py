"""Responses of the Incus API, validated; with the names and units of Incus.

Go encodes an empty list or map as null, so null is read as empty.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from opendrs.errors import UnexpectedResponseError

ModelT = TypeVar("ModelT", bound="IncusResponse")
RUNNING, STOPPED, FROZEN, READY = 103, 102, 110, 113  # status codes
SUCCESS = 200
VIRTUAL_MACHINE = "virtual-machine"

StringMap = Annotated[dict[str, str], BeforeValidator(lambda value: value or {})]
Strings = Annotated[list[str], BeforeValidator(lambda value: value or [])]


class IncusResponse(BaseModel):
    """A response, of which unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)


class StorageDriver(IncusResponse):
    """Driver of storage pools; a remote one is shared by all members."""

    name: str = Field(alias="Name")
    remote: bool = Field(alias="Remote")


class ServerEnvironment(IncusResponse):
    """Description of the member that responds."""

    server: str
    server_version: str
    server_clustered: bool = False
    server_name: str = ""
    certificate_fingerprint: str = ""
    storage_supported_drivers: Annotated[
        list[StorageDriver], BeforeValidator(lambda value: value or [])
    ] = []


class ServerInfo(IncusResponse):
    """Response to `GET /1.0`; without environment if the client is not trusted.

    The configuration is empty for a restricted certificate.
    """

    auth: str
    api_extensions: Strings = []
    auth_user_name: str = ""
    config: StringMap = {}
    environment: ServerEnvironment | None = None


class Member(IncusResponse):
    """Member of the cluster."""

    server_name: str
    status: str
    message: str = ""
    url: str = ""
    architecture: str = ""
    groups: Strings = []
    failure_domain: str = ""
    config: StringMap = {}


class SystemInfo(IncusResponse):
    """Figures of sysinfo(2): bytes, and load averages over 1, 5 and 15 minutes."""

    uptime: int
    load_averages: list[float] = Field(min_length=3)
    total_ram: int
    free_ram: int
    buffered_ram: int = 0


class PoolSpace(IncusResponse):
    """Bytes of a storage pool."""

    used: int = 0
    total: int = 0


class PoolState(IncusResponse):
    """State of a storage pool on one member."""

    space: PoolSpace = PoolSpace()


class MemberState(IncusResponse):
    """Response to `GET /1.0/cluster/members/N/state`."""

    sysinfo: SystemInfo
    storage_pools: Annotated[
        dict[str, PoolState], BeforeValidator(lambda value: value or {})
    ] = {}


class CpuSocket(IncusResponse):
    """Processor of a host."""

    name: str = ""


class HostCpu(IncusResponse):
    """Processors of a host; `total` counts hardware threads."""

    total: int
    architecture: str = ""
    sockets: Annotated[list[CpuSocket], BeforeValidator(lambda value: value or [])] = []


class HostMemory(IncusResponse):
    """Memory of a host; `used` excludes the page cache."""

    used: int
    total: int


class HostLoad(IncusResponse):
    """Load averages of a host over 1, 5 and 15 minutes."""

    one: float = Field(alias="Average1Min")
    five: float = Field(alias="Average5Min")
    fifteen: float = Field(alias="Average10Min")


class HostResources(IncusResponse):
    """Response to `GET /1.0/resources`."""

    cpu: HostCpu
    memory: HostMemory
    load: HostLoad | None = None


class Instance(IncusResponse):
    """Virtual machine or container."""

    name: str
    project: str
    location: str
    type: str
    status: str
    status_code: int
    ephemeral: bool = False
    last_used_at: str = ""
    config: StringMap = {}
    expanded_config: StringMap = {}
    expanded_devices: Annotated[
        dict[str, dict[str, str]], BeforeValidator(lambda value: value or {})
    ] = {}

    @property
    def key(self) -> tuple[str, str]:
        """Return project and name, which identify it."""
        return self.project, self.name


class Operation(IncusResponse):
    """Operation, such as a migration; its metadata may contain secrets."""

    id: str
    kind: str = Field(default="task", alias="class")
    description: str = ""
    status: str = ""
    status_code: int
    err: str = ""
    location: str = ""
    may_cancel: bool = False
    resources: Annotated[
        dict[str, Strings], BeforeValidator(lambda value: value or {})
    ] = {}
    metadata: Annotated[dict[str, Any], BeforeValidator(lambda value: value or {})] = (
        Field(default={}, repr=False)
    )

    @property
    def is_running(self) -> bool:
        """Return True until it has ended; the codes from 200 on are final."""
        return self.status_code < SUCCESS


class Project(IncusResponse):
    """Project."""

    name: str
    config: StringMap = {}


class StoragePool(IncusResponse):
    """Storage pool, with the members that have it."""

    name: str
    driver: str
    locations: Strings = []
    config: StringMap = {}


class Envelope(IncusResponse):
    """Form of all responses except metrics."""

    type: str
    metadata: Any = None
    operation: str = ""
    error: str = ""
    error_code: int = 0


def parse(kind: type[ModelT], value: object, what: str) -> ModelT:
    """Return *value* as *kind*.

    Raises:
        UnexpectedResponseError: It has another form; the message contains no values,
            which may be secrets.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UnexpectedResponseError(
            f"{what}: unexpected response: {field}: {first['msg']}"
        ) from None


def parse_list(kind: type[ModelT], value: object, what: str) -> tuple[ModelT, ...]:
    """Return a list of *kind*.

    Raises:
        UnexpectedResponseError: It has another form.
    """
    if not isinstance(value, list):
        raise UnexpectedResponseError(f"{what}: unexpected response: expected a list")
    return tuple(parse(kind, each, what) for each in value)


def parse_operations(value: object, what: str) -> tuple[Operation, ...]:
    """Return all operations of `GET /1.0/operations?recursion=1`.

    Raises:
        UnexpectedResponseError: It has another form.
    """
    if not isinstance(value, dict):
        raise UnexpectedResponseError(f"{what}: unexpected response: expected a map")
    lists = (parse_list(Operation, each, what) for each in value.values())
    return tuple(operation for each in lists for operation in each)
