"""Settings of Prometheus, and the queries that they choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opendrs.config.binding import TableBinder
from opendrs.errors import InvalidSettingError
from opendrs.platforms.prometheus.settings import (
    LoadQueries,
    Measure,
    PrometheusSettings,
)

URL = "https://prometheus:9090"


def test_own_query_overrides_ready_made_one() -> None:
    settings = PrometheusSettings(
        url=URL,
        exporters=("node",),
        queries={"node_cpu": "rate(x[$window])"},
        window=90,
    )

    assert settings.promql[Measure.NODE_CPU] == "rate(x[90000ms])"
    assert set(settings.promql) == {
        Measure.NODE_CPU,
        Measure.NODE_MEMORY,
        Measure.NODE_AGE,
    }


def test_later_exporter_overrides_earlier_one() -> None:
    both = PrometheusSettings(url=URL, exporters=("pve", "node"))
    node = PrometheusSettings(url=URL, exporters=("node",))

    assert both.promql[Measure.NODE_CPU] == node.promql[Measure.NODE_CPU]
    assert Measure.GUEST_CPU in both.promql


def test_queries_of_further_loads_are_read_from_a_table() -> None:
    query = "x[$window]"
    network = {"node": query, "guest": query, "capacity": 1_250_000_000}
    pressure = {"node": query, "capacity": query}
    table = {"url": URL, "loads": {"network": network, "io": pressure}}

    bound = TableBinder(PrometheusSettings, table)

    assert bound.diagnostics == ()
    assert bound.value is not None
    assert bound.value.loads["network"].capacity == 1.25e9
    assert {str(measure) for measure in bound.value.promql} == {
        "loads.network.node",
        "loads.network.guest",
        "loads.io.node",
        "loads.io.capacity",
    }
    assert set(bound.value.promql.values()) == {"x[300000ms]"}


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"url": "prometheus:9090"}, "url"),
        ({"url": "ftp://prometheus"}, "url"),
        ({"url": "https://user:secret@prometheus"}, "url"),
        ({"url": "http://prometheus", "token_env": "TOKEN"}, "url"),
        ({"exporters": ("vcenter",)}, "exporters"),
        ({"exporters": ()}, "exporters, queries or loads"),
        ({"loads": {"memory": LoadQueries(node="x")}}, "loads: expected a name other"),
        ({"loads": {"disk": LoadQueries(capacity=1.0)}}, "loads: disk: expected a"),
        ({"loads": {"disk": LoadQueries(node="x", capacity=0.0)}}, "disk: capacity"),
        ({"queries": {"disk": "x"}}, "queries"),
        ({"window": 0.0}, "window"),
        ({"max_age": -1.0}, "max_age"),
        ({"timeout": 1e9}, "timeout"),
        ({"token_file": Path("x"), "token_env": "X"}, "token_env"),
        ({"token_keyring": "opendrs"}, "token_keyring"),
        ({"user": "opendrs"}, "user"),
    ],
)
def test_invalid_setting_raises_error_without_secret(
    changes: dict[str, Any], setting: str
) -> None:
    with pytest.raises(InvalidSettingError, match=setting) as caught:
        PrometheusSettings(**{"url": URL, "exporters": ("node",), **changes})

    assert "secret" not in str(caught.value)
