"""Values of queries, and snapshots with the load that they measure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import UnexpectedResponseError
from opendrs.model import GIB, GuestId, GuestState, NodeId, NodeState, Usage
from opendrs.platforms.prometheus.reading import (
    Values,
    fresh_values,
    values_of,
    with_load,
)
from opendrs.platforms.prometheus.settings import (
    AnyMeasure,
    LoadMeasure,
    LoadQueries,
    Measure,
)
from support.builders import cluster

A, B, VM = NodeId("a"), NodeId("b"), GuestId("vm")
ORIGIN = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.3)})


def vector(*series: tuple[dict[str, str], str]) -> dict[str, object]:
    result = [{"metric": labels, "value": [1.5, value]} for labels, value in series]
    return {"resultType": "vector", "result": result}


def test_value_is_that_of_the_label() -> None:
    data = vector(({"node": "a", "job": "x"}, "2.5"), ({"node": "b"}, "0"))

    assert values_of(Measure.NODE_CPU, data) == {"a": 2.5, "b": 0.0}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "many"])
def test_impossible_value_is_unknown(value: str) -> None:
    assert values_of(Measure.NODE_CPU, vector(({"node": "a"}, value))) == {}


@pytest.mark.parametrize(
    "data",
    [
        vector(({"instance": "a"}, "1")),
        vector(({"node": "a"}, "1"), ({"node": "a"}, "2")),
        {"resultType": "scalar", "result": [1.5, "1"]},
        {"resultType": "matrix", "result": [{"metric": {}, "values": []}]},
        [],
        None,
    ],
)
def test_unusable_data_raises_error_with_measure(data: object) -> None:
    with pytest.raises(UnexpectedResponseError, match="query node_cpu"):
        values_of(Measure.NODE_CPU, data)


def test_values_without_fresh_sample_are_unknown() -> None:
    measured: dict[AnyMeasure, Values] = {
        Measure.NODE_CPU: {"a": 1.0, "b": 2.0, "c": 3.0},
        Measure.NODE_AGE: {"a": 60.0, "b": 60.1},
        Measure.GUEST_CPU: {"vm": 1.0},
    }

    fresh = fresh_values(measured, 60.0)

    assert fresh[Measure.NODE_CPU] == {"a": 1.0}
    assert fresh[Measure.GUEST_CPU] == {"vm": 1.0}


def test_measured_load_replaces_that_of_platform() -> None:
    measured: dict[AnyMeasure, Values] = {
        Measure.NODE_CPU: {"a": 9.0},
        Measure.GUEST_MEMORY: {"vm": 2.5 * GIB},
    }

    snapshot = with_load(ORIGIN, measured)

    memory = ORIGIN.nodes[A].usage.memory
    assert snapshot.nodes[A].usage == Usage(9.0, memory)
    assert snapshot.nodes[B].usage.cpu is None
    cpu = ORIGIN.guests[VM].usage.cpu
    assert snapshot.guests[VM].usage == Usage(cpu, 5 * GIB // 2)


def test_further_loads_are_those_of_the_queries() -> None:
    nodes = {
        A: replace(ORIGIN.nodes[A], loads={"network": 7.0, "disk": 3.0}),
        B: replace(ORIGIN.nodes[B], loads={"network": 7.0}),
    }
    measured: dict[AnyMeasure, Values] = {
        LoadMeasure("network", "node"): {"a": 40.0},
        LoadMeasure("network", "guest"): {"vm": 20.0},
        LoadMeasure("network", "capacity"): {"a": 100.0, "b": 0.0},
    }
    loads = {"disk": LoadQueries(node="x", capacity=9.0)}

    snapshot = with_load(replace(ORIGIN, nodes=nodes), measured, loads)

    # b has no series, so that its traffic is unknown; a capacity of 0 is none.
    assert snapshot.nodes[A].loads == {"network": 40.0, "disk": 3.0}
    assert snapshot.nodes[B].loads == {}
    assert snapshot.guests[VM].loads == {"network": 20.0}
    assert snapshot.nodes[A].load_capacities == {"network": 100.0, "disk": 9.0}
    assert snapshot.nodes[B].load_capacities == {"disk": 9.0}


def test_capacity_has_no_age() -> None:
    measured: dict[AnyMeasure, Values] = {
        LoadMeasure("network", "node"): {"a": 1.0},
        LoadMeasure("network", "capacity"): {"a": 9.0},
        Measure.NODE_AGE: {"a": 61.0},
    }

    fresh = fresh_values(measured, 60.0)

    assert fresh[LoadMeasure("network", "node")] == {}
    assert fresh[LoadMeasure("network", "capacity")] == {"a": 9.0}


def test_what_does_not_run_keeps_its_usage() -> None:
    offline = replace(ORIGIN.nodes[B], state=NodeState.OFFLINE)
    stopped = replace(ORIGIN.guests[VM], state=GuestState.STOPPED)
    origin = replace(ORIGIN, nodes={**ORIGIN.nodes, B: offline}, guests={VM: stopped})

    snapshot = with_load(origin, {Measure.NODE_CPU: {}, Measure.GUEST_CPU: {}})

    assert snapshot.nodes[B] == offline
    assert snapshot.guests[VM] == stopped


@given(
    st.recursive(
        st.none() | st.text() | st.floats() | st.integers(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_any_data_gives_values_or_unexpected_response(data: object) -> None:
    try:
        values = values_of(Measure.GUEST_CPU, data)
    except UnexpectedResponseError:
        return
    assert all(value >= 0 for value in values.values())
