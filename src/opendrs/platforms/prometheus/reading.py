"""Values of a query, and a snapshot with the load that they measure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pydantic import BaseModel, ValidationError

from opendrs.errors import UnexpectedResponseError
from opendrs.model import (
    MAX_AMOUNT,
    NO_LOADS,
    Guest,
    GuestState,
    LoadAmounts,
    Node,
    Snapshot,
    Usage,
)
from opendrs.platforms.prometheus.settings import (
    AnyMeasure,
    LoadMeasure,
    LoadQueries,
    Measure,
)

Values = Mapping[str, float]


class _Series(BaseModel):
    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(BaseModel):
    resultType: str  # noqa: N815 - the name in the response
    result: list[_Series]


def values_of(measure: AnyMeasure, data: object) -> Values:
    """Return the value of each node or guest.

    Values that are not a finite number of at least 0 are absent, as unknown.

    Raises:
        UnexpectedResponseError: The query does not give an instant vector, a series
            has no label with the name, or two have the same name.
    """
    try:
        vector = _Vector.model_validate(data)
    except ValidationError:
        raise UnexpectedResponseError(
            f"query {measure}: expected an instant vector"
        ) from None
    values: dict[str, float] = {}
    seen: set[str] = set()
    for series in vector.result:
        name = series.metric.get(measure.label)
        if name is None:
            raise UnexpectedResponseError(
                f"query {measure}: a series has no label {measure.label}: "
                f"{_labels(series)}; use label_replace"
            )
        if name in seen:
            raise UnexpectedResponseError(
                f"query {measure}: two series for {measure.label} {name}; aggregate "
                f"by ({measure.label})"
            )
        seen.add(name)
        number = _number(series.value[1])
        if number is not None:
            values[name] = number
    return values


def _labels(series: _Series) -> str:
    labels = ", ".join(f'{key}="{value}"' for key, value in series.metric.items())
    return f"{{{labels}}}"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= MAX_AMOUNT else None


def fresh_values(
    measured: Mapping[AnyMeasure, Values], max_age: float
) -> Mapping[AnyMeasure, Values]:
    """Return *measured* without nodes and guests whose newest sample is too old.

    Args:
        measured: Values by measure.
        max_age: Largest allowed age of the newest sample, in seconds. Capacities have
            no age.
    """
    ages = {"node": Measure.NODE_AGE, "guest": Measure.GUEST_AGE}
    result = dict(measured)
    for measure, values in measured.items():
        if isinstance(measure, LoadMeasure) and measure.part == "capacity":
            continue
        age_of = measured.get(ages[measure.label])
        if age_of is not None:
            result[measure] = {
                name: value
                for name, value in values.items()
                if age_of.get(name, math.inf) <= max_age
            }
    return result


def with_load(
    snapshot: Snapshot,
    measured: Mapping[AnyMeasure, Values],
    loads: Mapping[str, LoadQueries] = MappingProxyType({}),
) -> Snapshot:
    """Return *snapshot* with the measured load in place of that of the platform.

    A measure without a query keeps the value of the platform. Of a measure with a
    query, what has no value is unknown. Guests that do not run keep their usage.

    Args:
        snapshot: The cluster as the platform describes it.
        measured: Values by measure.
        loads: Queries of further loads, with the capacities that are numbers.
    """
    nodes = {
        name: _with_further_loads(_with_node_load(node, measured), measured, loads)
        for name, node in snapshot.nodes.items()
    }
    guests = {
        name: _with_guest_load(guest, measured)
        for name, guest in snapshot.guests.items()
    }
    return replace(snapshot, nodes=nodes, guests=guests)


def _with_further_loads(
    node: Node,
    measured: Mapping[AnyMeasure, Values],
    loads: Mapping[str, LoadQueries],
) -> Node:
    """Return *node* with the capacities of further loads; those of 0 are none."""
    capacities = _amounts(node.load_capacities, node.id, measured, "capacity")
    fixed = {
        load: queries.capacity
        for load, queries in loads.items()
        if isinstance(queries.capacity, float)
    }
    known = {load: size for load, size in (capacities | fixed).items() if size > 0}
    return (
        node if known == node.load_capacities else replace(node, load_capacities=known)
    )


def _amounts(
    amounts: LoadAmounts, name: str, measured: Mapping[AnyMeasure, Values], part: str
) -> dict[str, float]:
    """Return *amounts* with those that queries measure for *name*."""
    result = dict(amounts)
    for measure, values in measured.items():
        if isinstance(measure, LoadMeasure) and measure.part == part:
            result.pop(measure.load, None)
            if name in values:
                result[measure.load] = values[name]
    return result


def _with_node_load(node: Node, measured: Mapping[AnyMeasure, Values]) -> Node:
    if not node.reachable:
        return node
    cpu, memory = Measure.NODE_CPU, Measure.NODE_MEMORY
    return replace(
        node,
        usage=_usage(node.id, node.usage, measured, cpu, memory),
        loads=_amounts(node.loads, node.id, measured, "node") or NO_LOADS,
    )


def _with_guest_load(guest: Guest, measured: Mapping[AnyMeasure, Values]) -> Guest:
    if guest.state is not GuestState.RUNNING:
        return guest
    cpu, memory = Measure.GUEST_CPU, Measure.GUEST_MEMORY
    return replace(
        guest,
        usage=_usage(guest.id, guest.usage, measured, cpu, memory),
        loads=_amounts(guest.loads, guest.id, measured, "guest") or NO_LOADS,
    )


def _usage(
    name: str,
    usage: Usage,
    measured: Mapping[AnyMeasure, Values],
    cpu: Measure,
    memory: Measure,
) -> Usage:
    cores = measured[cpu].get(name) if cpu in measured else usage.cpu
    size = measured[memory].get(name) if memory in measured else usage.memory
    return Usage(cores, None if size is None else int(size))
