"""What can be said without asking a host."""

from __future__ import annotations

import pytest

from opendrs.errors import UnsupportedError
from opendrs.model import (
    Action,
    GuestId,
    Migration,
    NodeId,
    PowerOff,
    PowerOn,
    Relocation,
)
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.libvirt.task import Task

H1, H2, H9 = NodeId("h1"), NodeId("h2"), NodeId("h9")
VM = GuestId("vm")
PLATFORM = LibvirtPlatform(
    "lab",
    LibvirtSettings(
        nodes={"h1": "qemu+tcp://h1/system", "h2": "qemu:///system?socket=/nowhere"}
    ),
)


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (Relocation(VM, H1, H2), "only migrate live"),
        (PowerOn(H1), "only migrate live"),
        (PowerOff(H1), "only migrate live"),
        (Migration(VM, H1, H9), "h9 is not a node of lab"),
        (Migration(VM, H9, H1), "h9 is not a node of lab"),
        (Migration(VM, H1, H1), "vm is on h1 already"),
        (Migration(VM, H1, H2), "set migration_uris.h2"),
    ],
)
def test_refuses_what_it_cannot_do(action: Action, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        PLATFORM.start(action)


def test_does_not_ask_after_a_task_between_nodes_it_does_not_have() -> None:
    with pytest.raises(UnsupportedError, match="h9 is not a node of lab"):
        PLATFORM.status(Task(VM, "u1", H1, H9).id)
