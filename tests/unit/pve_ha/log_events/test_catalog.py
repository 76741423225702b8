import inspect
from dataclasses import fields

import pytest

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.log_events import LogEvent
from opendrs.pve_ha.log_events.catalog import LOG_LINES, log_message
from opendrs.pve_ha.states import NameList, ServiceId, ServiceState, StateParameters

EVENT_CLASSES = [
    kind
    for _, kind in inspect.getmembers(log_events, inspect.isclass)
    if issubclass(kind, LogEvent) and kind is not LogEvent
]


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_every_event_has_a_log_line(kind: type[LogEvent]) -> None:
    assert kind in LOG_LINES


def test_log_lines_are_only_for_events() -> None:
    assert set(LOG_LINES) == set(EVENT_CLASSES)


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
def test_state_change_message_contains_parameters(
    parameters: tuple[tuple[str, str], ...], shown: str
) -> None:
    change = log_events.ServiceStateChanged(
        ServiceId("vm:1"),
        ServiceState.STARTED,
        ServiceState.FREEZE,
        StateParameters(parameters),
    )

    assert log_message(change) == f"service 'vm:1': {shown}"


def test_name_list_is_separated_by_commas() -> None:
    failed = NameList((NodeId("node1"), NodeId("node2")))

    words = log_message(log_events.RelocationFailed(ServiceId("vm:1"), failed))

    assert words.endswith("Failed nodes: node1, node2")


def test_event_has_name_and_details() -> None:
    event = log_events.LockAcquired("ha_manager_lock")

    assert event.name == "lock-acquired"
    assert event.details() == {"lock": "ha_manager_lock"}


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_no_event_field_is_called_name(kind: type[LogEvent]) -> None:
    assert "name" not in {field.name for field in fields(kind)}
