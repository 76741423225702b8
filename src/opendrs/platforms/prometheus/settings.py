"""Settings of Prometheus as a source of load, and ready-made queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import httpx2

from opendrs.config.secret_sources import given_sources, source_names, source_problems
from opendrs.errors import InvalidSettingError, ModelError
from opendrs.model import MAX_AMOUNT, Seconds, require_load_name

MAX_DURATION = 86_400.0  # seconds
WINDOW_VARIABLE = "$window"


class Measure(StrEnum):
    """Quantity that a query measures; its series have the label `node` or `guest`."""

    NODE_CPU = "node_cpu"
    """Busy cores of each node."""
    NODE_MEMORY = "node_memory"
    """Memory in use on each node, in bytes."""
    NODE_AGE = "node_age"
    """Age of the newest sample of each node, in seconds."""
    GUEST_CPU = "guest_cpu"
    """Busy cores of each guest."""
    GUEST_MEMORY = "guest_memory"
    """Memory in use by each guest, in bytes."""
    GUEST_AGE = "guest_age"
    """Age of the newest sample of each guest, in seconds."""

    @property
    def label(self) -> str:
        """Return the label with the name of what is measured."""
        return self.value.partition("_")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadQueries:
    """Queries of a further load, table `[platform.NAME.load.loads.LOAD]`.

    Attributes:
        node: Query in PromQL of the amount of each node; None if it is not measured.
        guest: Query of the amount of each guest; None if it is not measured.
        capacity: Query of the capacity of each node, or the capacity of all nodes; None
            for that of the platform.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    node: str | None = None
    guest: str | None = None
    capacity: float | str | None = None


@dataclass(frozen=True, slots=True)
class LoadMeasure:
    """Quantity of a further load that a query measures.

    Attributes:
        load: Name of the load.
        part: Quantity: `node`, `guest` or `capacity`, as in `LoadQueries`.
    """

    load: str
    part: str

    @property
    def label(self) -> str:
        """Return the label with the name of what is measured."""
        return "guest" if self.part == "guest" else "node"

    def __str__(self) -> str:
        return f"loads.{self.load}.{self.part}"


AnyMeasure = Measure | LoadMeasure


def _labelled(query: str, label: str, source: str, pattern: str = "(.+)") -> str:
    return f'label_replace({query}, "{label}", "$1", "{source}", "{pattern}")'


def _node_exporter(expression: str) -> str:
    """Return *expression* per host name; node_uname_info has the name of a node."""
    named = f"{expression} * on (instance, job) group_left (nodename) node_uname_info"
    return _labelled(f"sum by (nodename) ({named})", "node", "nodename")


def _libvirt(aggregation: str) -> str:
    return _labelled(aggregation, "guest", "domain")


_INSTANCE = "on (domain, instance) group_left (instance_name, instance_id)"


def _nova(aggregation: str, expression: str) -> str:
    """Return *expression* per server, named NAME/UUID8 as by the adapter."""
    named = f"{expression} * {_INSTANCE} libvirt_domain_openstack_info"
    found = f"{aggregation} by (instance_name, instance_id) ({named})"
    short = _labelled(found, "instance_id", "instance_id", "(.{8}).*")
    return f'label_join({short}, "guest", "/", "instance_name", "instance_id")'


def _pve_nodes(expression: str, aggregation: str = "max") -> str:
    return _labelled(f"{aggregation} by (id) ({expression})", "node", "id", "node/(.+)")


def _pve_guests(expression: str, aggregation: str = "max") -> str:
    """Return *expression* per guest, named vm:101 or ct:102."""
    found = f"{aggregation} by (id) ({expression})"
    machines = f'label_replace({found}, "guest", "vm:$1", "id", "qemu/(.+)")'
    return f'label_replace({machines}, "guest", "ct:$1", "id", "lxc/(.+)")'


_NODE_QUERIES: Mapping[Measure, str] = {
    Measure.NODE_CPU: _node_exporter(
        "sum by (instance, job) "
        '(rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[$window]))'
    ),
    Measure.NODE_MEMORY: _node_exporter(
        "(avg_over_time(node_memory_MemTotal_bytes[$window]) - "
        "avg_over_time(node_memory_MemAvailable_bytes[$window]))"
    ),
    Measure.NODE_AGE: _node_exporter(
        "(time() - timestamp(node_memory_MemTotal_bytes))"
    ),
}
_PVE_ID = '{id=~"(qemu|lxc)/.+"}'
EXPORTERS: Mapping[str, Mapping[Measure, str]] = {
    "node": _NODE_QUERIES,
    "libvirt": {
        Measure.GUEST_CPU: _libvirt(
            "sum by (domain) "
            "(rate(libvirt_domain_info_cpu_time_seconds_total[$window]))"
        ),
        Measure.GUEST_MEMORY: _libvirt(
            "max by (domain) "
            "(avg_over_time(libvirt_domain_info_memory_usage_bytes[$window]))"
        ),
        Measure.GUEST_AGE: _libvirt(
            "min by (domain) "
            "(time() - timestamp(libvirt_domain_info_memory_usage_bytes))"
        ),
    },
    "pve": {
        Measure.NODE_CPU: _pve_nodes(
            'avg_over_time(pve_cpu_usage_ratio{id=~"node/.+"}[$window]) '
            "* on (id, instance) pve_cpu_usage_limit"
        ),
        Measure.NODE_MEMORY: _pve_nodes(
            'avg_over_time(pve_memory_usage_bytes{id=~"node/.+"}[$window])'
        ),
        Measure.NODE_AGE: _pve_nodes(
            'time() - timestamp(pve_memory_usage_bytes{id=~"node/.+"})', "min"
        ),
        Measure.GUEST_CPU: _pve_guests(
            f"avg_over_time(pve_cpu_usage_ratio{_PVE_ID}[$window]) "
            "* on (id, instance) pve_cpu_usage_limit"
        ),
        Measure.GUEST_MEMORY: _pve_guests(
            f"avg_over_time(pve_memory_usage_bytes{_PVE_ID}[$window])"
        ),
        Measure.GUEST_AGE: _pve_guests(
            f"time() - timestamp(pve_memory_usage_bytes{_PVE_ID})", "min"
        ),
    },
    "openstack": {
        **_NODE_QUERIES,
        Measure.GUEST_CPU: _nova(
            "sum", "rate(libvirt_domain_info_cpu_time_seconds_total[$window])"
        ),
        Measure.GUEST_MEMORY: _nova(
            "max", "avg_over_time(libvirt_domain_info_memory_usage_bytes[$window])"
        ),
        Measure.GUEST_AGE: _nova(
            "min", "(time() - timestamp(libvirt_domain_info_memory_usage_bytes))"
        ),
    },
}
"""Ready-made queries by exporter.

Source:
    node_exporter 1.5; prometheus-libvirt-exporter (labels domain and, for OpenStack,
    libvirt_domain_openstack_info); prometheus-pve-exporter 3.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """Settings of Prometheus as a source of load, table `[platform.NAME.load]`.

    Attributes:
        url: URL of the server, such as https://prometheus:9090.
        exporters: Sets of ready-made queries: node, libvirt, pve, openstack. Of two
            that measure the same, the later one is used.
        queries: Queries in PromQL by measure, which override the ready-made ones. Each
            series has the label `node` or `guest`. `$window` is replaced by `window`.
        loads: Queries of further loads, by name of the load.
        window: Seconds over which the load is averaged.
        max_age: Age of the newest sample in seconds from which a load is unknown.
        ca: File with the only trusted certificates; None for the system trust store.
        user: User name for basic authentication; None for a bearer token.
        token_file: File with the bearer token, or with the password of `user`.
        token_env: Environment variable with it.
        token_keyring: Entry SERVICE/USER of the keyring with it.
        token: The token or password; better in one of the places before.
        timeout: Seconds in which the server must respond to a query.

    Raises:
        InvalidSettingError: A value is invalid; with all errors.
    """

    url: str
    exporters: tuple[str, ...] = ()
    queries: Mapping[str, str] = field(default_factory=dict)
    loads: Mapping[str, LoadQueries] = field(default_factory=dict)
    window: Seconds = 300.0
    max_age: Seconds = 180.0
    ca: Path | None = None
    user: str | None = None
    token_file: Path | None = None
    token_env: str | None = None
    token_keyring: str | None = None
    token: str | None = field(default=None, repr=False)
    timeout: Seconds = 10.0

    def __post_init__(self) -> None:
        for name in ("queries", "loads"):
            frozen = MappingProxyType(dict(getattr(self, name)))
            object.__setattr__(self, name, frozen)
        if problems := tuple(_problems(self)):
            raise InvalidSettingError(*problems)

    @property
    def promql(self) -> Mapping[AnyMeasure, str]:
        """Return the query of each measure, with the window in it."""
        chosen: dict[AnyMeasure, str] = {}
        for exporter in self.exporters:
            chosen.update(EXPORTERS[exporter].items())
        for load, queries in self.loads.items():
            for part in ("node", "guest", "capacity"):
                query = getattr(queries, part)
                if isinstance(query, str):
                    chosen[LoadMeasure(load, part)] = query
        chosen |= {Measure(name): query for name, query in self.queries.items()}
        window = f"{round(self.window * 1000)}ms"
        return {
            measure: query.replace(WINDOW_VARIABLE, window)
            for measure, query in chosen.items()
        }


def _problems(settings: PrometheusSettings) -> Iterator[str]:
    yield from _url_problems(settings)
    for name in settings.exporters:
        if name not in EXPORTERS:
            yield f"exporters: expected some of {', '.join(EXPORTERS)}, got {name!r}"
    for name in settings.queries:
        if name not in set(Measure):
            yield f"queries: expected some of {', '.join(Measure)}, got {name!r}"
    if not settings.exporters and not settings.queries and not settings.loads:
        yield "expected exporters, queries or loads, got none"
    yield from _load_problems(settings)
    for name in ("window", "max_age", "timeout"):
        seconds = getattr(settings, name)
        if not 0 < seconds <= MAX_DURATION:
            yield (
                f"{name}: expected seconds above 0 and up to {MAX_DURATION:.0f}, "
                f"got {seconds:g}"
            )
    yield from source_problems(settings, "token")
    if settings.user is not None and not given_sources(settings, "token"):
        names = ", ".join(source_names("token"))
        yield f"user: expected one of {names} with the password, got none"


def _load_problems(settings: PrometheusSettings) -> Iterator[str]:
    for name, queries in settings.loads.items():
        try:
            require_load_name("loads", name)
        except ModelError as error:
            yield str(error)
        capacity = queries.capacity
        if queries.node is None and queries.guest is None:
            yield f"loads: {name}: expected a query of node, of guest or both, got none"
        if isinstance(capacity, float) and not 0 < capacity <= MAX_AMOUNT:
            yield f"loads: {name}: capacity: expected more than 0, got {capacity:g}"


def _url_problems(settings: PrometheusSettings) -> Iterator[str]:
    try:
        url = httpx2.URL(settings.url)
    except httpx2.InvalidURL as error:
        yield f"url: {error}"
        return
    if url.scheme not in ("http", "https") or not url.host:
        yield "url: expected a URL such as https://prometheus:9090"
    elif url.userinfo:
        yield "url: contains a user or a password; set user and token_file instead"
    elif url.scheme == "http" and given_sources(settings, "token"):
        yield "url: expected https, because the token would be sent unencrypted"
