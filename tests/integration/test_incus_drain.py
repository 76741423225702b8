"""Drain of a member of a real Incus cluster: kinds of instances, rules, kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.incus_lab import INCUS, LARGE_DISK, ROOT, IncusLab
from integration.incus_operator import IncusOperator
from integration.libvirt_lab import eventually

pytestmark = [pytest.mark.shared, pytest.mark.lab]

DRAIN = ("drain", "lab", "n3", "--yes", "--format", "json")
RULE = "user.opendrs."  # start of the keys of instances that name rules


def test_member_is_drained_and_refilled(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    for name in ("v1", "v2", "v3"):
        incus_lab.vm(name, "n3")
    incus_lab.incus("stop", "v2", "--force")
    incus_lab.incus("config", "set", "v3", "cluster.evacuate=stop")

    drained = operator.runs(*DRAIN)

    assert drained.returncode == 1, drained.stderr
    document = json.loads(drained.stdout)
    (remaining,) = document["remaining"]
    assert (remaining["guest"], remaining["reason"]) == ("v3", "mobility-none")
    assert {each["kind"] for each in document["records"]} == {
        "live-migration",
        "relocation",
    }
    assert {each["outcome"] for each in document["records"]} == {"done"}
    assert incus_lab.location("v1") != "n3"
    assert incus_lab.location("v2") != "n3"
    assert incus_lab.api("/1.0/instances/v1")["status"] == "Running"
    assert incus_lab.api("/1.0/instances/v2")["status"] == "Stopped"

    returned = operator.runs("undrain", "lab", "n3", "--bring-back")

    assert returned.returncode == 0, returned.stdout + returned.stderr
    locations = [incus_lab.location(name) for name in ("v1", "v2", "v3")]
    assert locations == ["n3"] * 3, returned.stdout + returned.stderr
    assert incus_lab.api("/1.0/instances/v1")["status"] == "Running"


def test_rolling_maintenance_visits_each_member_and_continues_after_a_kill(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    """The hook finds its member empty; the second one stands for a crash of opendrs."""
    homes = {"db1": "n1", "db2": "n2", "web": "n3"}
    for name, member in homes.items():
        options = ("-c", RULE + "anti-affinity=db") if name != "web" else ()
        incus_lab.vm(name, member, *options)
    visits = operator.home / "visits"
    hook = operator.home / "hook.sh"
    hook.write_text(
        f'guests=$({INCUS} list location="$1" -f csv -c n) || exit 1\n'
        f'echo "$1 [$guests]" >> {visits}\n'
        f"if [ $(wc -l < {visits}) = 2 ]; then kill -9 $PPID; fi\n"
    )
    words = ("drain", "lab", "--for", "updates", "--yes", "--hook", f"sh {hook}")

    killed = operator.runs(*words, "--format", "json")

    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    assert visits.read_text().splitlines() == ["n1 []", "n2 []"]
    assert incus_lab.location("db1") != incus_lab.location("db2")

    continued = operator.runs(*words, "--format", "json")

    assert continued.returncode == 0, continued.stdout + continued.stderr
    assert json.loads(continued.stdout)["done"] == ["n1", "n2", "n3"]
    # The hook of n2 was interrupted: it runs again, as the help says.
    assert visits.read_text().splitlines() == ["n1 []", "n2 []", "n2 []", "n3 []"]
    assert incus_lab.locations() == homes
    for name in homes:
        assert incus_lab.api(f"/1.0/instances/{name}")["status"] == "Running"


@dataclass
class IncusOperations:
    """Operations of all clients, as Incus itself reports them.

    Attributes:
        file: One JSON document a line, as `incus monitor` writes them.
    """

    file: Path

    @classmethod
    @contextmanager
    def watched(cls, file: Path) -> Iterator[IncusOperations]:
        """Write the operations of all members to *file*."""
        words = ("monitor", "--type=operation", "--format=json", "--all-projects")
        with file.open("wb") as output:
            monitor = subprocess.Popen(  # noqa: S603 - the program of the lab
                ["/usr/sbin/chroot", str(ROOT), "incus", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                env={"INCUS_DIR": "/srv/n1", "INCUS_CONF": "/srv/n1/cli"},
            )
        try:
            yield cls(file)
            assert monitor.poll() is None
        finally:
            monitor.kill()
            monitor.wait()

    def migrations(self, status: str = "Running") -> list[str]:
        """Return the instances with a migration of *status*, one for each operation."""
        *lines, _ = self.file.read_text().split("\n")  # the last one is incomplete
        documents = [json.loads(line)["metadata"] for line in lines if line]
        return sorted(
            {
                each["id"]: Path(each["resources"]["instances"][0]).name
                for each in documents
                if each["description"] == "Migrating instance"
                if (each["class"], each["status"]) == ("task", status)
            }.values()
        )


@pytest.mark.parametrize("with_controller", [False, True])
def test_killed_drain_is_continued_by_the_rules_and_starts_nothing_twice(
    incus_lab: IncusLab, operator: IncusOperator, *, with_controller: bool
) -> None:
    """Without the rules, web and paid would go to n1, which is less loaded."""
    operator.limits["max_parallel_migrations"] = 1
    operator.configure()
    incus_lab.load("n2", 50, 4.0)
    with IncusOperations.watched(operator.home / "operations") as incus:
        incus_lab.vm("db1", "n1", "-c", RULE + "anti-affinity=db,web")
        incus_lab.vm("db2", "n2", "-c", RULE + "anti-affinity=db")
        incus_lab.vm("db3", "n3", "-c", RULE + "anti-affinity=db")
        incus_lab.vm("web", "n3", "-c", RULE + "anti-affinity=web", *LARGE_DISK)
        incus_lab.vm("paid", "n3", "-c", RULE + "nodes=n2,n3", *LARGE_DISK)

        kill_while_draining(operator, incus, with_controller=with_controller)
        assert (len(incus.migrations()), incus.migrations("Success")) == (1, [])
        with operator.controller() if with_controller else nullcontext() as controller:
            if controller is not None:
                started = "controller started"
                eventually(lambda: operator.logged().count(started) == 2, 30, started)
            continued = operator.runs(*DRAIN, "--wait")

        assert continued.returncode == 1, continued.stdout + continued.stderr
        done = ["paid", "web"]
        eventually(lambda: incus.migrations("Success") == done, 10, "both are done")
        assert incus.migrations() == done
    document = json.loads(continued.stdout)
    (remaining,) = document["remaining"]
    assert (remaining["guest"], remaining["reason"]) == ("db3", "contradictory-rules")
    executed_by = "controller" if with_controller else "drain"
    assert document["executed_by"] == executed_by
    assert incus_lab.locations() == {
        "db1": "n1",
        "db2": "n2",
        "db3": "n3",
        "web": "n2",
        "paid": "n2",
    }


def kill_while_draining(
    operator: IncusOperator, incus: IncusOperations, *, with_controller: bool
) -> None:
    """Drain n3, and kill the process that migrates while a migration is in progress."""
    with operator.controller() if with_controller else nullcontext() as controller:
        if controller is not None:
            eventually(lambda: "no steps planned" in operator.logged(), 30, "a cycle")
        drain = subprocess.Popen(operator.command(*DRAIN))  # noqa: S603 - our command
        if controller is not None:
            drain.wait()  # it has left the drain to the controller
        eventually(lambda: bool(incus.migrations()), 60, "a migration is in progress")
        killed = controller or drain
        killed.kill()
        killed.wait()
        drain.wait()
