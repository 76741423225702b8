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
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event

import pytest
import tomli_w

from opendrs.model import LiveMigration
from opendrs.ports import Outcome, StepRecord
from opendrs.store import SqliteStore
from support.command_process import start_command
from support.nova_double import AFTER, BEFORE, CloudServer, NovaDouble, ignore, served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("openstack") is None,
        reason="openstacksdk is not installed",
    ),
]

HOSTS = ("h1", "h2", "h3")
APPLY = ["apply", "cloud", "--yes", "--config", "opendrs.toml"]
RUN = ["run", "opendrs.toml", "--once"]
PROMPT = 60.0  # seconds in which a command ends, on a busy machine
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
                "platform": {"cloud": double.table},
                "policy": {"name": "balance", "balance": {"threshold": 0.2}},
                "store": {"path": "record.sqlite"},
            }
            (self.place / "opendrs.toml").write_text(tomli_w.dumps(document))
            ending = self._run_until_killed(cloud)
            self.requests = list(cloud.requests)
            accepted = cloud.starts
            again = self._run(self.words)
            return list(self._findings(cloud, ending, accepted, again))

    def _findings(
        self,
        cloud: NovaDouble,
        ending: int | None,
        accepted: list[str],
        again: int | None,
    ) -> Iterator[str]:
        records = self._records()
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

    def _records(self) -> tuple[StepRecord, ...]:
        store = SqliteStore(self.place / "record.sqlite")
        with store:
            return store.recent(datetime(2020, 1, 1, tzinfo=UTC))

    def _run_until_killed(self, cloud: NovaDouble) -> int | None:
        process: BaseProcess | None = None
        started = Event()

        def strike(moment: str, number: int) -> None:
            if (number, moment) == (self.at, self.moment):
                started.wait(PROMPT)
                assert process is not None
                process.kill()
                process.join(PROMPT)

        cloud.on_request = strike
        process = start_command(self.words, self.place / "log")
        started.set()
        process.join(PROMPT)
        cloud.on_request = ignore
        return process.exitcode

    def _run(self, words: list[str]) -> int | None:
        process = start_command(words, self.place / "log")
        process.join(PROMPT)
        return process.exitcode


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
