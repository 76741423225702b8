import pytest

from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId
from opendrs.sim.drill.failing import Counters, Failures, failures_of

NODE = NodeId("node1")


@pytest.mark.parametrize(
    ("name", "failures"),
    [
        ("fa:130", Failures(starts=3)),
        ("fa:104", Failures(moves=4)),
        ("fa:1501", Failures(starts=5, never_stops=True)),
        ("fa:120002", Failures(starts=2, node=NodeId("node2"))),
        ("fa:13", Failures()),
        ("vm:130", Failures()),
    ],
)
def test_the_digits_of_a_failing_service_say_how_it_fails(
    name: str, failures: Failures
) -> None:
    assert failures_of(ServiceId(name)) == failures


def test_a_service_fails_as_often_as_it_says_and_begins_anew() -> None:
    counters = Counters()

    fails = [counters.start_fails(ServiceId("fa:120"), NODE) for _ in range(6)]

    assert fails == [True, True, False, True, True, False]


def test_a_service_fails_only_on_the_node_it_names() -> None:
    counters, service = Counters(), ServiceId("fa:110002")

    assert not counters.start_fails(service, NODE)
    assert counters.start_fails(service, NodeId("node2"))


def test_starts_and_moves_are_counted_apart() -> None:
    counters, service = Counters(), ServiceId("fa:111")

    assert counters.start_fails(service, NODE)
    assert counters.move_fails(service, NODE)
