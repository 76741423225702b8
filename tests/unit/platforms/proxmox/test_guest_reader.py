"""Guests of Proxmox VE: order of requests, and what is read again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from opendrs.platforms.proxmox.guest_reader import PveGuestReader
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.responses import ResourceRow, TaskRow


class Requests:
    """Requests about guests, in the order of the calls."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []

    def preconditions(
        self, node: str, kind: str, vmid: int, target: str | None
    ) -> Preconditions:
        del node, kind, target
        self.sent.append(("preconditions", vmid))
        return Preconditions()

    def configuration(self, node: str, kind: str, vmid: int) -> dict[str, object]:
        del node, kind
        self.sent.append(("disks", vmid))
        return {"scsi0": "local:disk,size=1G"}


def rows(*nodes: str) -> tuple[ResourceRow, ...]:
    """Return a running guest on each of *nodes*, with the numbers 1, 2, ..."""
    return tuple(
        ResourceRow(id=f"qemu/{n}", type="qemu", vmid=n, node=node, status="running")
        for n, node in enumerate(nodes, 1)
    )


def test_preconditions_of_all_guests_are_read_before_disks() -> None:
    requests = Requests()
    reader = PveGuestReader(requests)  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as pool:
        for _ in range(4):
            reader.read(pool, rows("a", "b", "silent"), {"a", "b"}, 1)

    assert requests.sent == [
        ("preconditions", 1),
        ("preconditions", 2),
        ("disks", 1),
        ("disks", 2),
    ]
    assert reader.disks.keys() == {1, 2}


def test_guest_that_is_gone_or_elsewhere_is_forgotten() -> None:
    reader = PveGuestReader(Requests())  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as pool:
        reader.read(pool, rows("a", "a"), {"a"}, 10)
        reader.read(pool, rows("b"), {"a"}, 10)

    assert reader.preconditions == {}
    assert reader.disks.keys() == {1}  # which move with their guest


def task(number: int, kind: str, vmid: int, end: int | None = 5) -> TaskRow:
    return TaskRow(
        upid=f"UPID:a:{number}", node="a", type=kind, id=str(vmid), endtime=end
    )


def test_guest_is_read_again_once_after_a_task_that_changes_its_disks() -> None:
    requests = Requests()
    reader = PveGuestReader(requests)  # type: ignore[arg-type]
    tasks = [task(1, "qmmove", 1), task(2, "vzdump", 2), task(3, "qmmove", 2, None)]

    with ThreadPoolExecutor(1) as pool:
        reader.read(pool, rows("a", "a"), {"a"}, 10)
        requests.sent.clear()
        for _ in range(2):
            reader.expire_changed(tasks)
            reader.read(pool, rows("a", "a"), {"a"}, 10)

    assert requests.sent == [("preconditions", 1), ("disks", 1)]


def test_disks_that_cannot_be_read_again_yet_are_kept() -> None:
    reader = PveGuestReader(Requests())  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as pool:
        reader.read(pool, rows("a"), {"a"}, 10)
        reader.expire_changed([task(1, "qmsnapshot", 1)])
        reader.read(pool, rows("a"), {"a"}, 0)

    assert reader.disks.keys() == {1}
