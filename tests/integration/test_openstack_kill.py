"""Kill -9 at each request to Nova and Placement: nothing is lost or started twice.

The requests are those of a whole `apply`, and of a cycle of `run`. A read is killed
before its response arrives; a request that changes something before and after it has
its effect.
"""

from __future__ import annotations

import importlib.util
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import tomli_w

from integration.libvirt_lab import eventually
from integration.nova_lab import CLOUD, NovaLab
from integration.nova_lab import HOSTS as LAB_HOSTS
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.ports import Outcome, StepRecord, TaskState
from opendrs.store import SqliteStore
from support.forked_program import ForkedProgram, polling_opendrs
from support.forwarding_server import ForwardingServer, forwarding
from support.nova_double import (
    AFTER,
    BEFORE,
    QUERIES,
    CloudServer,
    NovaDouble,
    ignore,
    served,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openstack") is None,
    reason="openstacksdk is not installed",
)

HOSTS = ("h1", "h2", "h3")
APPLY = ["apply", "cloud", "--yes", "--config", "opendrs.toml"]
RUN = ["run", "opendrs.toml", "--once"]
PROMPT = 240.0  # seconds in which a command ends, on a busy machine
PARALLEL = 4


@dataclass
class Victim:
    """A command on a cloud of its own, which dies at one of its requests.

    Attributes:
        words: The command.
        place: A directory for its files.
        at: Number of the request, from 1; 0 for none.
        moment: Before or after the request has its effect.
        requests: The requests until its end.
    """

    words: list[str]
    place: Path
    at: int = 0
    moment: str = BEFORE
    requests: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Kill the command, run it again, and return what is wrong then."""
        self.place.mkdir()
        cloud = NovaDouble(
            HOSTS,
            *(
                CloudServer(f"busy{n}", "h1", vcpus=4, load=4.0, duration=8.0)
                for n in range(3)
            ),
        )
        with served(cloud, self.place) as double:
            document = {
                "controller": {"mode": "automatic"},
                "platform": {"cloud": double.table},
                "policy": {"name": "balance", "balance": {"threshold": 0.2}},
                "store": {"path": "record.sqlite"},
            }
            (self.place / "opendrs.toml").write_text(tomli_w.dumps(document))
            log = self.place / "log"
            ending = run_and_kill(self.words, log, cloud, (self.at, self.moment))
            self.requests = list(cloud.requests)
            accepted = cloud.starts
            again = run_to_end(self.words, log)
            return list(self._findings(cloud, ending, accepted, again))

    def _findings(
        self,
        cloud: NovaDouble,
        ending: int | None,
        accepted: list[str],
        again: int | None,
    ) -> Iterator[str]:
        records = step_records(self.place / "record.sqlite")
        done = {
            record.action.guest.partition("/")[0]
            for record in records
            if isinstance(record.action, LiveMigration)
            and record.outcome is Outcome.DONE
        }
        if ending != (-signal.SIGKILL if self.at else 0):
            yield f"the command ended with {ending}"
        if max(Counter(cloud.starts).values()) > 1:
            yield f"started twice: {cloud.starts}"
        if lost := set(cloud.starts) - done:
            yield f"no outcome of {lost}, accepted {accepted}"
        if any(record.outcome is None for record in records):
            yield "a step is unfinished"
        if len(set(cloud.placement.values())) < len(HOSTS):
            yield f"not balanced: {cloud.placement}"
        if again not in (0, 3):
            yield f"the second command ended with {again}"


def run_and_kill(
    words: list[str],
    log: Path,
    server: NovaDouble | ForwardingServer,
    case: tuple[int, str],
) -> int:
    """Run a command that dies at a request of *server*; return its exit status."""
    process: ForkedProgram | None = None
    started = Event()

    def strike(moment: str, number: int) -> None:
        if (number, moment) == case:
            started.wait(PROMPT)
            assert process is not None
            process.kill()
            process.wait(PROMPT)

    server.on_request = strike
    process = start(words, log)
    started.set()
    status = process.wait(PROMPT)
    server.on_request = ignore
    return status


def run_to_end(words: list[str], log: Path) -> int:
    """Run a command and return its exit status."""
    return start(words, log).wait(PROMPT)


def start(words: list[str], log: Path) -> ForkedProgram:
    """Start a command in the directory of *log*, to which its output is added."""
    with log.open("ab") as output:
        return ForkedProgram(polling_opendrs, words, cwd=log.parent, stdout=output)


def step_records(path: Path) -> tuple[StepRecord, ...]:
    """Return all steps in the store at *path*."""
    with SqliteStore(path) as store:
        return store.recent(datetime(2020, 1, 1, tzinfo=UTC))


@pytest.mark.slow
@pytest.mark.parametrize("words", [APPLY, RUN], ids=["apply", "run"])
def test_command_killed_at_any_request_loses_and_repeats_nothing(
    words: list[str], tmp_path: Path
) -> None:
    complete = Victim(words, tmp_path / "complete")
    assert complete.problems() == []
    assert sum(each.startswith("POST") for each in complete.requests) == 2
    cases = [
        (number, moment)
        for number, request in enumerate(complete.requests, 1)
        for moment in (BEFORE, AFTER)
        if moment == BEFORE or not request.startswith("GET")
    ]

    def problems(case: tuple[int, str]) -> list[str]:
        number, moment = case
        place = tmp_path / f"{number}-{moment}"
        return Victim(words, place, number, moment).problems()

    with ThreadPoolExecutor(PARALLEL) as pool:
        found = dict(zip(cases, pool.map(problems, cases), strict=True))

    assert {case: each for case, each in found.items() if each} == {}


class MeasuredLab(NovaDouble):
    """Load of the servers of a lab, wherever they are.

    Args:
        lab: The lab.
        guests: Its guests, which all have the same load.
    """

    def __init__(self, lab: NovaLab, guests: list[GuestId]) -> None:
        servers = [CloudServer(guest.partition("/")[0], "") for guest in guests]
        for server, guest in zip(servers, guests, strict=True):
            server.id = lab.uuid(guest)
        super().__init__(LAB_HOSTS, *servers)
        self._lab = lab

    def vector(self, measure: str) -> dict[str, Any]:
        for each in self._lab.compute.servers(all_projects=True):
            self.servers[each.id].host = str(each.compute_host)
        return super().vector(measure)


# Of the server before the start, the start, and of the server and its progress after
# it. There are more if the migration takes longer than a poll.
START, LAST = 2, 4


@pytest.mark.lab
@pytest.mark.shared
def test_apply_on_real_nova_killed_at_any_request_starts_nothing_twice(
    nova: NovaLab, tmp_path: Path
) -> None:
    guests = [nova.boot(f"vm{n}") for n in range(2)]
    cases = [(number, BEFORE) for number in range(1, LAST + 1)]
    found: dict[object, list[str]] = {}
    with (
        served(MeasuredLab(nova, guests), tmp_path) as measured,
        forwarding(nova.url, lambda request: "/servers/" in request) as server,
    ):
        for case in [*cases, (START, AFTER)]:
            place = tmp_path / f"{case[0]}-{case[1]}"
            place.mkdir()
            _write_lab_configuration(place, nova, server.url, measured.url)
            known = sum(len(nova.migrations(guest)) for guest in guests)
            server.requests.clear()

            ending = run_and_kill(APPLY, place / "log", server, case)
            again = run_to_end(APPLY, place / "log")

            found[case] = list(_lab_findings(nova, guests, place, known))
            found[case] += [f"ended with {ending}"] * (ending != -signal.SIGKILL)
            found[case] += [f"then with {again}"] * (again not in (0, 3))
            _return_to_first_host(nova, guests)

    assert {case: each for case, each in found.items() if each} == {}


def _write_lab_configuration(
    place: Path, nova: NovaLab, nova_url: str, prometheus_url: str
) -> None:
    clouds = nova.clouds_file.read_text().replace(nova.url, nova_url)
    (place / "clouds.yaml").write_text(clouds)
    (place / "clouds.yaml").chmod(0o600)
    table = {
        "kind": "openstack",
        "cloud": CLOUD,
        "clouds_file": "clouds.yaml",
        "load": {"url": prometheus_url, "queries": QUERIES},
    }
    document = {
        "controller": {"mode": "automatic"},
        "platform": {"cloud": table},
        "policy": {"name": "balance", "balance": {"threshold": 0.8}},
        # Each case moves the same server again.
        "limits": {"min_uptime": 0.0, "cooldown": 0.001},
        "store": {"path": "record.sqlite"},
    }
    (place / "opendrs.toml").write_text(tomli_w.dumps(document))


def _lab_findings(
    nova: NovaLab, guests: list[GuestId], place: Path, known: int
) -> Iterator[str]:
    """Yield what is wrong after a case.

    Args:
        nova: The lab.
        guests: Its guests.
        place: Directory with the store.
        known: Number of migrations before the case.
    """
    started = sum(len(nova.migrations(guest)) for guest in guests) - known
    if started != 1:
        yield f"{started} migrations were started"
    if len({nova.host_of(guest) for guest in guests}) != len(guests):
        yield "not balanced"
    records = step_records(place / "record.sqlite")
    if sum(record.outcome is Outcome.DONE for record in records) != 1:
        yield f"outcomes: {[record.outcome for record in records]}"


def _return_to_first_host(nova: NovaLab, guests: list[GuestId]) -> None:
    platform, first = nova.platform(), NodeId(LAB_HOSTS[0])
    for guest in guests:
        source = NodeId(nova.host_of(guest))
        if source == first:
            continue
        task = platform.start(LiveMigration(guest, source, first))
        eventually(
            lambda task=task: platform.status(task).state is TaskState.DONE,  # type: ignore[misc]
            30,
            f"{guest} is back",
        )
