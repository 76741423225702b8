import inspect
from dataclasses import fields

import pytest

from opendrs.ha import events
from opendrs.ha.events import Event
from opendrs.ha.identifiers import Names, Parameters, ServiceId
from opendrs.ha.states import ServiceState
from opendrs.ha.wording import LINES, words_of
from opendrs.model import NodeId

KINDS = [
    kind for _, kind in inspect.getmembers(events, inspect.isclass) if kind is not Event
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_has_a_line(kind: type[Event]) -> None:
    assert kind in LINES


def test_there_are_no_lines_for_anything_else() -> None:
    assert set(LINES) == set(KINDS)


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        ((), "state changed from 'started' to 'freeze'"),
        (
            (("node", "node1"), ("target", "node2")),
            "state changed from 'started' to 'freeze'  (node = node1, target = node2)",
        ),
    ],
)
def test_a_change_of_state_shows_what_comes_along(
    parameters: tuple[tuple[str, str], ...], shown: str
) -> None:
    change = events.ServiceStateChanged(
        ServiceId("vm:1"),
        ServiceState.STARTED,
        ServiceState.FREEZE,
        Parameters(parameters),
    )

    assert words_of(change) == f"service 'vm:1': {shown}"


def test_several_nodes_are_shown_with_commas() -> None:
    failed = Names((NodeId("node1"), NodeId("node2")))

    words = words_of(events.RelocationFailed(ServiceId("vm:1"), failed))

    assert words.endswith("Failed nodes: node1, node2")


def test_an_event_tells_its_name_and_details() -> None:
    event = events.LockTaken("ha_manager_lock")

    assert event.name == "lock-taken"
    assert event.details() == {"lock": "ha_manager_lock"}


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_of_an_event_hides_its_name(kind: type[Event]) -> None:
    assert "name" not in {field.name for field in fields(kind)}
