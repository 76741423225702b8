"""Values in the configuration of instances, and the metrics of instances."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from opendrs.model import GuestId, Resources
from opendrs.platforms.incus.metrics import (
    InstanceMetrics,
    MemberMetrics,
    MetricsSamples,
    cpu_usage,
    parse_metrics,
)
from opendrs.platforms.incus.responses import Instance, parse
from opendrs.platforms.incus.values import (
    guest_id,
    instance_key,
    instance_limit,
    is_pinned,
    key_from_url,
    last_move,
    parse_cpus,
    parse_size,
    parse_time,
)
from support import incus_documents
from support.incus_documents import GIB

KEY = ("default", "v1")


def instance(**changes: Any) -> Instance:  # noqa: ANN401
    return parse(Instance, incus_documents.instance("v1", **changes), "test")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 64 << 20),
        ("1GB", 10**9),
        ("1024", 1024),
        ("2 GiB", 2 << 30),
        ("3kB", 3000),
        ("10B", 10),
        ("50%", None),
        ("", None),
        (None, None),
        ("1XB", None),
        ("-1", None),
    ],
)
def test_parse_size_understands_the_units_of_incus(
    text: str | None, size: int | None
) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "count", "pinned"),
    [
        ("4", 4, False),
        ("0-3", 4, True),
        ("0,2,4-5", 4, True),
        ("7-7", 1, True),
        ("3-1", None, True),
        ("0-99999999", None, True),
        ("", None, False),
        ("many", None, False),
    ],
)
def test_parse_cpus_counts_processors_and_pins(
    *, text: str, count: int | None, pinned: bool
) -> None:
    assert parse_cpus(text) == count
    assert is_pinned(text) is pinned


@pytest.mark.parametrize(
    ("kind", "config", "limit"),
    [
        ("virtual-machine", {}, Resources(1, GIB)),
        ("virtual-machine", {"limits.cpu": "", "limits.memory": ""}, Resources(1, GIB)),
        ("virtual-machine", {"limits.memory": "25%"}, Resources(1, 4 * GIB)),
        ("virtual-machine", {"limits.memory": "much"}, None),
        (
            "container",
            {"limits.cpu": "", "limits.memory": "2GiB"},
            Resources(0, 2 * GIB),
        ),
        ("container", {"limits.memory": ""}, None),
    ],
)
def test_limit_has_the_defaults_of_incus(
    kind: str, config: dict[str, str], limit: Resources | None
) -> None:
    found = instance(type=kind, expanded_config=config)

    assert instance_limit(found, 16 * GIB) == limit


@pytest.mark.parametrize("key", [("default", "v1"), ("web", "v1")])
def test_guest_id_leads_back_to_project_and_name(key: tuple[str, str]) -> None:
    assert instance_key(guest_id(key)) == key


def test_guest_id_names_other_projects() -> None:
    assert guest_id(("web", "v1")) == GuestId("web/v1")


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("/1.0/instances/v1", ("default", "v1")),
        ("/1.0/instances/v1?project=web", ("web", "v1")),
        ("/1.0/instances/v1/snapshots/s", ("default", "v1")),
        ("/1.0/images/x", None),
        ("", None),
    ],
)
def test_key_from_url(url: str, key: tuple[str, str] | None) -> None:
    assert key_from_url(url) == key


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (
            "2026-11-22T06:29:46.818141645Z",
            datetime(2026, 11, 22, 6, 29, 46, 818141, tzinfo=UTC),
        ),
        ("1970-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("2026-11-22", None),
    ],
)
def test_parse_time_reads_nanoseconds_and_no_zero_times(
    text: str, time: datetime | None
) -> None:
    assert parse_time(text) == time


@pytest.mark.parametrize(
    ("text", "seconds"), [("100", 100), ("0", None), ("x", None), ("9" * 30, None)]
)
def test_last_move_is_in_seconds(text: str, seconds: int | None) -> None:
    found = last_move(instance(config={"volatile.rebalance.last_move": text}))

    assert (None if found is None else found.timestamp()) == seconds


def test_metrics_sum_busy_time_and_subtract_available_memory() -> None:
    text = incus_documents.metrics("v1", seconds=2.5, resident=GIB // 4)

    assert parse_metrics(text) == {
        KEY: InstanceMetrics(cpu_seconds=2.5, memory=GIB // 4)
    }


def test_available_memory_below_zero_wraps_around() -> None:
    text = incus_documents.metrics("v1").replace(
        str(GIB - GIB // 2),
        "1.8446744073661557e+19",  # recorded from 7.0.2
    )

    memory = parse_metrics(text)[KEY].memory

    assert memory is not None
    assert GIB < memory < GIB + (256 << 20)


@pytest.mark.parametrize("text", ["", "# HELP x", "incus_cpu_seconds_total{} NaN", "x"])
def test_metrics_without_figures_are_empty(text: str) -> None:
    assert parse_metrics(text) == {}


def test_zero_metrics_are_unknown() -> None:
    text = incus_documents.metrics("v1", seconds=0).replace(str(GIB), "0")

    assert parse_metrics(text)[KEY] == InstanceMetrics()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([10.0, 15.0], 0.5),
        ([10.0, 10.0], 0.0),
        ([10.0, 12.0, 18.0], 0.4),
        ([None, 10.0, 15.0], 0.5),  # arrived, or 0 s in the first sample
        ([10.0, None, 15.0], None),
        ([20.0, 1.0, 3.0], 0.2),  # restarted
        ([15.0, 10.0], None),
        ([10.0, None], None),
        ([10.0], None),
    ],
)
def test_cpu_usage_is_the_rate_since_its_first_sample_on_the_member(
    seconds: list[float | None], expected: float | None
) -> None:
    *earlier, last = (
        MemberMetrics(
            sampled_at=100.0 + 10 * number,
            instances={KEY: InstanceMetrics(cpu_seconds=each)},
        )
        for number, each in enumerate(seconds)
    )

    assert cpu_usage(KEY, MetricsSamples(earlier, last)) == expected
