"""A task id holds all that is needed to ask after it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import PlatformError
from opendrs.model import GuestId, Migration, NodeId
from opendrs.platforms.libvirt.task import Task
from opendrs.ports import TaskId

NAMES = st.text(min_size=1)


@given(guest=NAMES, uuid=st.text(), source=NAMES, target=NAMES)
def test_what_was_written_is_read(
    guest: str, uuid: str, source: str, target: str
) -> None:
    move = Migration(GuestId(guest), NodeId(source), NodeId(target))
    task = Task.of(move, uuid)

    assert Task.read(task.id) == task


@pytest.mark.parametrize("text", ["", "UPID:x", "{}", "[]", "null", '{"guest": "a"}'])
def test_refuses_the_task_of_another_platform(text: str) -> None:
    with pytest.raises(PlatformError, match="not a task of libvirt"):
        Task.read(TaskId(text))
