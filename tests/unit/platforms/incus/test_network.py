"""Network load of instances, from counters of their interfaces."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from opendrs.platforms.incus.metrics import (
    MemberMetrics,
    MetricsSamples,
    parse_metrics,
)
from opendrs.platforms.incus.network import instance_load
from opendrs.platforms.incus.responses import Instance, parse
from support import incus_documents
from support.incus_documents import metrics, network_metrics

NIC = {"type": "nic", "network": "br0"}
KEY = ("default", "v1")
Counts = Mapping[str, int] | None  # None if the instance is missing


def instance(**nics: dict[str, str]) -> Instance:
    document = incus_documents.instance("v1")
    document["expanded_devices"].update(nics)
    document["config"]["volatile.lan.name"] = "eth7"
    return parse(Instance, document, "test")


def sampled(at: float, counts: Counts) -> MemberMetrics:
    text = "" if counts is None else metrics("v1") + network_metrics("v1", counts)
    return MemberMetrics(sampled_at=at, instances=parse_metrics(text, network=True))


def load(found: Instance, *samples: Counts) -> float | None:
    *earlier, last = [sampled(20.0 * at, each) for at, each in enumerate(samples)]
    return instance_load(found, MetricsSamples(earlier, last)).get("network")


def test_counters_are_read_on_demand() -> None:
    text = metrics("v1") + network_metrics("v1", {"eth0": 1000})

    assert parse_metrics(text, network=True)[KEY].network == {"eth0": 1000}
    assert parse_metrics(text)[KEY].network is None


def test_interface_with_one_direction_is_unknown() -> None:
    text = metrics("v1") + network_metrics("v1", {"eth0": 1000}).partition("\n")[0]

    assert parse_metrics(text, network=True)[KEY].network == {}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1000, 3000], 100.0),
        ([1000, 1000], 0.0),
        ([1000, 2000, 5000], 100.0),
        ([None, 1000, 3000], 100.0),  # arrived
        ([9000, 1000, 3000], 100.0),  # restarted
        ([1000, None, 3000], None),
        ([3000, 1000], None),
        ([1000, None], None),
        ([1000], None),
    ],
)
def test_load_is_the_rate_since_the_first_sample_on_the_member(
    counts: list[int | None], expected: float | None
) -> None:
    samples = [None if each is None else {"eth0": each} for each in counts]

    assert load(instance(eth0=NIC), *samples) == expected


@pytest.mark.parametrize(
    ("nics", "before", "after", "expected"),
    [
        # Names of the configuration: of a container, or of the host.
        ({"eth0": NIC}, {"eth0": 0, "lo": 0}, {"eth0": 200, "lo": 900}, 10.0),
        ({"lan": NIC}, {"eth7": 0, "lo": 0}, {"eth7": 200, "lo": 900}, 10.0),
        ({"wan": NIC | {"name": "up"}}, {"up": 0}, {"up": 200}, 10.0),
        ({"wan": NIC | {"name": "up"}}, {"wan": 0}, {"wan": 200}, 10.0),
        # Interfaces inside of the instance do not count.
        (
            {"eth0": NIC},
            {"eth0": 0, "docker0": 0, "veth1": 0},
            {"eth0": 200, "docker0": 200, "veth2": 200},
            10.0,
        ),
        # Names that the guest has given.
        ({"eth0": NIC}, {"enp5s0": 0, "lo": 0}, {"enp5s0": 200, "lo": 9}, 10.0),
        (
            {"eth0": NIC, "eth1": NIC},
            {"enp5s0": 0, "enp6s0": 0, "tunl0": 0},
            {"enp5s0": 200, "enp6s0": 20, "tunl0": 99},
            11.0,
        ),
        ({}, {"lo": 0}, {"lo": 900}, 0.0),
        # It is uncertain which interfaces are the NICs, or not all have counters.
        ({"eth0": NIC}, {"net1": 0}, {"net1": 200}, None),
        ({"eth0": NIC, "eth1": NIC}, {"eth0": 0}, {"eth0": 200}, None),
        ({"eth0": NIC}, {"enp5s0": 0, "enp6s0": 0}, {"enp5s0": 1, "enp6s0": 1}, None),
        ({"eth0": NIC}, {"lo": 0}, {"lo": 200}, None),
        # Counters of the host, then those of the guest.
        ({"eth0": NIC}, {"eth0": 0}, {"eth0": 200, "lo": 0}, None),
        ({"eth0": NIC}, {"eth0": 0}, {"enp5s0": 200, "lo": 0}, None),
    ],
)
def test_load_is_that_of_the_nics(
    nics: dict[str, dict[str, str]],
    before: Counts,
    after: Counts,
    expected: float | None,
) -> None:
    assert load(instance(**nics), before, after) == expected


def test_load_is_unknown_if_the_counters_were_not_read() -> None:
    texts = [
        metrics("v1") + network_metrics("v1", {"eth0": count}) for count in (0, 100)
    ]
    first, last = (
        MemberMetrics(sampled_at=at, instances=parse_metrics(text))
        for at, text in zip((0.0, 20.0), texts, strict=True)
    )

    assert instance_load(instance(eth0=NIC), MetricsSamples([first], last)) == {}
