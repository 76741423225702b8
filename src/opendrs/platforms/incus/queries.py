"""Requests of the adapter, each with a validated response."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import quote

from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.incus.client import IncusClient, IncusNotFoundError, Parameters
from opendrs.platforms.incus.metrics import (
    InstanceMetrics,
    MemberMetrics,
    parse_metrics,
)
from opendrs.platforms.incus.responses import (
    HostResources,
    Instance,
    Member,
    MemberState,
    Operation,
    Project,
    ServerInfo,
    StoragePool,
    parse,
    parse_list,
    parse_operations,
)
from opendrs.platforms.incus.values import InstanceKey, key_from_url

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
_INSTANCES = "/1.0/instances"
_MEMBERS = "/1.0/cluster/members"
_OPERATIONS = "/1.0/operations"
_ALL: Parameters = {"all-projects": "true"}


def query_all(
    call: Callable[[KeyT], ValueT], keys: Iterable[KeyT], parallel: int
) -> tuple[dict[KeyT, ValueT], dict[KeyT, PlatformError]]:
    """Call *call* for all *keys* in parallel, and return the results and the errors."""

    def attempt(key: KeyT) -> tuple[KeyT, ValueT | None, PlatformError | None]:
        try:
            return key, call(key), None
        except PlatformError as error:
            return key, None, error

    results: dict[KeyT, ValueT] = {}
    errors: dict[KeyT, PlatformError] = {}
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        for key, value, error in pool.map(attempt, keys):
            if error is not None:
                errors[key] = error
            elif value is not None:
                results[key] = value
    return results, errors


def read_server(client: IncusClient) -> ServerInfo:
    """Return the description of the cluster."""
    return parse(ServerInfo, client.read("/1.0"), "/1.0")


def read_members(client: IncusClient) -> tuple[Member, ...]:
    """Return all members."""
    return parse_list(Member, client.read(_MEMBERS, {"recursion": 1}), _MEMBERS)


def read_member(client: IncusClient, name: str) -> Member:
    """Return the member *name*."""
    path = f"{_MEMBERS}/{quote(name, safe='')}"
    return parse(Member, client.read(path), path)


def read_member_state(client: IncusClient, name: str) -> MemberState:
    """Return the state of the member *name*; sent once, because it may not respond."""
    path = f"{_MEMBERS}/{quote(name, safe='')}/state"
    return parse(MemberState, client.read(path, attempts=1), path)


def read_resources(client: IncusClient, name: str) -> HostResources:
    """Return the resources of the member *name*; sent once."""
    path = "/1.0/resources"
    return parse(HostResources, client.read(path, {"target": name}, attempts=1), path)


def read_metrics(
    client: IncusClient, name: str, projects: Iterable[str], *, network: bool = False
) -> MemberMetrics:
    """Return the metrics of the instances on the member *name*; sent once.

    Args:
        client: The client.
        name: The member.
        projects: The projects; an empty name stands for all, which a restricted
            certificate cannot read.
        network: Read the counters of interfaces as well.
    """
    instances: dict[InstanceKey, InstanceMetrics] = {}
    for project in projects:
        query = {"target": name, "project": project}
        text = client.read_text("/1.0/metrics", query, attempts=1)
        instances.update(parse_metrics(text, network=network))
    return MemberMetrics(sampled_at=time.monotonic(), instances=instances)


def read_instances(client: IncusClient) -> tuple[Instance, ...]:
    """Return all instances; each member asks the processes of its own.

    It is sent once, because one process that does not respond delays it for ever.
    """
    query: Parameters = {"recursion": 1, **_ALL}
    response = client.read(_INSTANCES, query, attempts=1)
    return parse_list(Instance, response, _INSTANCES)


def read_instance_keys(client: IncusClient) -> tuple[InstanceKey, ...]:
    """Return all instances by project and name; asks no member."""
    urls = client.read(_INSTANCES, _ALL)
    if not isinstance(urls, list):
        raise UnexpectedResponseError(f"{_INSTANCES}: expected a list")
    keys = (key_from_url(str(url)) for url in urls)
    return tuple(key for key in keys if key is not None)


def instance_path(name: str) -> str:
    """Return the path of the instance *name*."""
    return f"{_INSTANCES}/{quote(name, safe='')}"


def read_instance(
    client: IncusClient, key: InstanceKey, *, attempts: int | None = None
) -> Instance:
    """Return one instance."""
    project, name = key
    response = client.read(instance_path(name), {"project": project}, attempts=attempts)
    return parse(Instance, response, instance_path(name))


def read_operations(client: IncusClient) -> tuple[Operation, ...]:
    """Return all operations."""
    query: Parameters = {"recursion": 1, **_ALL}
    return parse_operations(client.read(_OPERATIONS, query), _OPERATIONS)


def read_projects(client: IncusClient) -> dict[str, Project]:
    """Return the projects that can be read, by name."""
    path = "/1.0/projects"
    listed = parse_list(Project, client.read(path, {"recursion": 1}), path)
    return {project.name: project for project in listed}


def read_pool(client: IncusClient, name: str) -> StoragePool:
    """Return the storage pool *name*; a restricted certificate cannot list them."""
    path = f"/1.0/storage-pools/{quote(name, safe='')}"
    return parse(StoragePool, client.read(path), path)


def start_move(
    client: IncusClient, key: InstanceKey, target: str, *, live: bool
) -> Operation:
    """Start the migration of an instance and return its operation.

    Args:
        client: The client.
        key: The instance.
        target: The member that receives it.
        live: True for a running instance.

    Raises:
        PlatformError: Incus rejects it, or the request failed. After a timeout it may
            have started.
    """
    project, name = key
    response = client.write(
        "POST",
        instance_path(name),
        {"project": project, "target": target},
        {"migration": True, "live": live},
    )
    return parse(Operation, response, instance_path(name))


def read_operation(client: IncusClient, operation: str) -> Operation:
    """Return the operation with this id."""
    path = f"{_OPERATIONS}/{operation}"
    return parse(Operation, client.read(path), path)


def wait_for_operation(client: IncusClient, operation: str, seconds: int) -> Operation:
    """Return the operation when it has ended, or as it is after *seconds*."""
    try:
        response = client.wait(operation, seconds)
    except (PlatformUnavailableError, IncusNotFoundError):
        raise
    except PlatformError:  # status 500 when the time is over on another member
        return read_operation(client, operation)
    return parse(Operation, response, f"operation {operation}")


def set_config(
    client: IncusClient, key: InstanceKey, values: Mapping[str, str]
) -> None:
    """Set keys in the configuration of an instance; others stay as they are."""
    project, name = key
    client.write(
        "PATCH", instance_path(name), {"project": project}, {"config": dict(values)}
    )
