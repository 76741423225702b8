"""A task id holds all that is needed to ask after it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import PlatformError
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.platforms.libvirt.migration import LibvirtTask
from opendrs.ports import TaskId

NAMES = st.text(min_size=1)


@given(guest=NAMES, uuid=st.text(), source=NAMES, target=NAMES)
def test_task_id_is_parsed(guest: str, uuid: str, source: str, target: str) -> None:
    move = LiveMigration(GuestId(guest), NodeId(source), NodeId(target))
    task = LibvirtTask.from_migration(move, uuid)

    assert LibvirtTask.parse(task.id) == task


@pytest.mark.parametrize("text", ["", "UPID:x", "{}", "[]", "null", '{"guest": "a"}'])
def test_task_of_another_platform_is_rejected(text: str) -> None:
    with pytest.raises(PlatformError, match="not a libvirt task id"):
        LibvirtTask.parse(TaskId(text))
