"""Answers of the libvirt platform that need no host."""

from __future__ import annotations

import pytest

from opendrs.errors import UnsupportedError
from opendrs.model import (
    Action,
    ColdMigration,
    GuestId,
    LiveMigration,
    NodeId,
    PowerOff,
    PowerOn,
)
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.libvirt.migration import LibvirtTask

H1, H2, H9 = NodeId("h1"), NodeId("h2"), NodeId("h9")
VM = GuestId("vm")
PLATFORM = LibvirtPlatform(
    "lab",
    LibvirtSettings(
        nodes={"h1": "qemu+tcp://h1/system", "h2": "qemu:///system?socket=/nowhere"}
    ),
)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (ColdMigration(VM, H1, H2), "expected a live migration"),
        (PowerOn(H1), "expected a live migration"),
        (PowerOff(H1), "expected a live migration"),
        (LiveMigration(VM, H1, H9), "h9: not a node of lab"),
        (LiveMigration(VM, H9, H1), "h9: not a node of lab"),
        (LiveMigration(VM, H1, H1), "vm: already on h1"),
        (LiveMigration(VM, H1, H2), "set migration_uris.h2"),
    ],
)
def test_unsupported_actions_are_rejected(action: Action, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        PLATFORM.start(action)


def test_task_of_unknown_nodes_is_rejected() -> None:
    with pytest.raises(UnsupportedError, match="h9: not a node of lab"):
        PLATFORM.status(LibvirtTask(VM, "u1", H1, H9).id)
