import inspect
from dataclasses import fields

import pytest

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.log_events import LogEvent, LogLevel
from opendrs.pve_ha.simulator import drill_log
from opendrs.pve_ha.states import NameList, ServiceId, ServiceState, StateParameters

EVENT_CLASSES = [
    kind
    for module in (log_events, drill_log)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, LogEvent) and kind is not LogEvent
]
BASE_NAMES = {"name", "level", "message", "log_line", "details"}


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_every_event_has_a_log_line(kind: type[LogEvent]) -> None:
    assert isinstance(vars(kind)["log_line"].level, LogLevel)


def test_all_event_classes_are_exported() -> None:
    assert len(EVENT_CLASSES) > 100


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_log_line_uses_only_fields_of_its_event(kind: type[LogEvent]) -> None:
    values = dict.fromkeys((field.name for field in fields(kind)), 1.0)

    message = kind(**values).message

    assert "{" not in message


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

    assert change.message == f"service 'vm:1': {shown}"


def test_name_list_is_separated_by_commas() -> None:
    failed = NameList((NodeId("node1"), NodeId("node2")))

    event = log_events.RelocationFailed(ServiceId("vm:1"), failed)

    assert event.message.endswith("Failed nodes: node1, node2")


def test_event_has_name_and_details() -> None:
    event = log_events.LockAcquired("ha_manager_lock")

    assert event.name == "lock-acquired"
    assert event.details() == {"lock": "ha_manager_lock"}


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_no_event_field_has_a_name_of_the_base_class(kind: type[LogEvent]) -> None:
    assert BASE_NAMES.isdisjoint(field.name for field in fields(kind))
