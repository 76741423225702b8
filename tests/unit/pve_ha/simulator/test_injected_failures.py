import pytest

from opendrs.model import NodeId
from opendrs.pve_ha.simulator.injected_failures import (
    FailureCounters,
    InjectedFailures,
    failures_from_name,
)
from opendrs.pve_ha.states import ServiceId

NODE = NodeId("node1")


@pytest.mark.parametrize(
    ("name", "failures"),
    [
        ("fa:130", InjectedFailures(starts=3)),
        ("fa:104", InjectedFailures(moves=4)),
        ("fa:1501", InjectedFailures(starts=5, never_stops=True)),
        ("fa:120002", InjectedFailures(starts=2, node=NodeId("node2"))),
        ("fa:13", InjectedFailures()),
        ("vm:130", InjectedFailures()),
    ],
)
def test_digits_of_failing_service_define_its_failures(
    name: str, failures: InjectedFailures
) -> None:
    assert failures_from_name(ServiceId(name)) == failures


def test_service_fails_given_number_of_times_and_again() -> None:
    counters = FailureCounters()

    fails = [counters.start_fails(ServiceId("fa:120"), NODE) for _ in range(6)]

    assert fails == [True, True, False, True, True, False]


def test_service_fails_only_on_given_node() -> None:
    counters, service = FailureCounters(), ServiceId("fa:110002")

    assert not counters.start_fails(service, NODE)
    assert counters.start_fails(service, NodeId("node2"))


def test_starts_and_moves_are_counted_separately() -> None:
    counters, service = FailureCounters(), ServiceId("fa:111")

    assert counters.start_fails(service, NODE)
    assert counters.move_fails(service, NODE)
