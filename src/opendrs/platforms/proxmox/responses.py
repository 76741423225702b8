"""Responses of the Proxmox VE API as typed values.

A field that is missing or has an impossible value is None; a response of another shape
is an error. Lists contain only rows that the login may see.

Source:
    The API description of Proxmox VE 9.2, and recorded responses. Numbers and flags
    are numbers in one call and strings in another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from opendrs.errors import UnexpectedResponseError
from opendrs.model import MAX_AMOUNT

RowT = TypeVar("RowT", bound="ApiRow")


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of any size
        return None
    return number if math.isfinite(number) and 0 <= number <= MAX_AMOUNT else None


def _integer(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) else None


def _flag(value: object) -> bool | None:
    number = _number(value)
    return None if number is None else number != 0


Number = Annotated[float | None, BeforeValidator(_number)]
Integer = Annotated[int | None, BeforeValidator(_integer)]
Text = Annotated[str | None, BeforeValidator(_text)]
Flag = Annotated[bool | None, BeforeValidator(_flag)]


class ApiRow(BaseModel):
    """One object of a response; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class VersionRow(ApiRow):
    """Response of `GET /version`."""

    version: str


class ClusterRow(ApiRow):
    """Row of `GET /cluster/status`."""

    type: str
    name: Text = None
    online: Flag = None
    quorate: Flag = None


class ResourceRow(ApiRow):
    """Row of `GET /cluster/resources`: a node, a guest or a storage."""

    id: str
    type: str
    node: Text = None
    vmid: Integer = None
    name: Text = None
    status: Text = None
    cpu: Number = None
    maxcpu: Number = None
    mem: Integer = None
    memhost: Integer = None
    maxmem: Integer = None
    disk: Integer = None
    maxdisk: Integer = None
    uptime: Number = None
    hastate: Text = None
    lock: Text = None
    tags: Text = None
    template: Flag = None
    storage: Text = None
    shared: Flag = None
    pool: Text = None
    netin: Integer = None
    netout: Integer = None


class TaskRow(ApiRow):
    """Row of `GET /cluster/tasks` and `GET /nodes/{node}/tasks`."""

    upid: str
    node: Text = None
    type: Text = None
    id: Text = None
    user: Text = None
    starttime: Integer = None
    endtime: Integer = None
    status: Text = None


class TaskStatusRow(ApiRow):
    """Response of `GET /nodes/{node}/tasks/{upid}/status`."""

    status: str
    exitstatus: Text = None
    starttime: Integer = None
    type: Text = None


class LogRow(ApiRow):
    """Row of `GET /nodes/{node}/tasks/{upid}/log`."""

    n: Integer = None
    t: Text = None


class ReplicationRow(ApiRow):
    """Row of `GET /cluster/replication`."""

    guest: Integer = None


class HaResourceRow(ApiRow):
    """Row of `GET /cluster/ha/resources`."""

    sid: str
    state: Text = None
    group: Text = None
    auto_rebalance: Flag = Field(default=None, alias="auto-rebalance")


class HaRuleRow(ApiRow):
    """Row of `GET /cluster/ha/rules` (Proxmox VE 9)."""

    rule: str
    type: str
    resources: Text = None
    nodes: Text = None
    strict: Flag = None
    affinity: Text = None
    disable: Flag = None


class HaGroupRow(ApiRow):
    """Row of `GET /cluster/ha/groups` (Proxmox VE 8)."""

    group: str
    nodes: Text = None
    restricted: Flag = None


class NodeHistoryRow(ApiRow):
    """Row of `GET /nodes/{node}/rrddata`: averages over one minute.

    PSI is in percent, traffic in bytes per second.
    """

    time: Integer = None
    cpu: Number = None
    maxcpu: Number = None
    memused: Number = None
    loadavg: Number = None
    netin: Number = None
    netout: Number = None
    pressurecpusome: Number = None
    pressurememorysome: Number = None
    pressurememoryfull: Number = None
    pressureiosome: Number = None
    pressureiofull: Number = None


class GuestRow(ApiRow):
    """Row of `GET /nodes/{node}/qemu` and `lxc`; PSI in percent."""

    vmid: Integer = None
    pressurecpusome: Number = None
    pressurecpufull: Number = None
    pressurememorysome: Number = None
    pressurememoryfull: Number = None
    pressureiosome: Number = None
    pressureiofull: Number = None


class GuestStatusRow(ApiRow):
    """Response of `GET /nodes/{node}/qemu/{vmid}/status/current`, and of `lxc`."""

    status: Text = None
    lock: Text = None
    uptime: Number = None
    qmpstatus: Text = None


class LocalDiskRow(ApiRow):
    """Disk in `local_disks` of the migration preconditions."""

    volid: Text = None
    size: Integer = None
    cdrom: Flag = None


def parse_row(model: type[RowT], data: object, request: str) -> RowT:
    """Return *data* as an object of *model*.

    Raises:
        UnexpectedResponseError: *data* is not such an object.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "data"
        raise UnexpectedResponseError(
            f"{request}: {where}: {first['msg']} in the response"
        ) from None


def parse_rows(model: type[RowT], data: object, request: str) -> tuple[RowT, ...]:
    """Return *data* as a list of objects of *model*.

    Raises:
        UnexpectedResponseError: *data* is not such a list.
    """
    if not isinstance(data, list):
        raise UnexpectedResponseError(f"{request}: expected a list in the response")
    return tuple(parse_row(model, row, request) for row in data)


def parse_object(data: object, request: str) -> Mapping[str, object]:
    """Return *data* as an object.

    Raises:
        UnexpectedResponseError: *data* is not an object.
    """
    if not isinstance(data, dict):
        raise UnexpectedResponseError(f"{request}: expected an object in the response")
    return data
