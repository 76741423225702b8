"""Several controllers as processes over one PostgreSQL database.

One leads, the others wait for its lease. The leader is killed, or stopped by SIGSTOP
for longer than the lease, or the server is; another one takes over. A process that
goes on after another has taken over must change nothing any more.

On a busy machine, a controller may have lost the lease again before its message that it
leads is read. The database has the one that was the last to acquire it.
"""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

from soak.endpoint import FREEZE, FREEZE_SERVER, Endpoint
from soak.process import ENDED, KILLED, ControllerConfig, KilledError, live
from soak.record import Record
from support.postgresql_server import PostgresqlServer

LEASE_TIME = 1.5  # real seconds
DEPOSED, STUCK = "deposed", "stuck"
TAKEOVER_TIMEOUT = 240.0  # real seconds until another one leads, on a busy machine


@dataclass(eq=False)
class Member:
    """A controller.

    Attributes:
        pid: Its process.
        line: The connection to it.
        answer: What it is answered when it goes on.
        is_waiting: Whether it waits for that: before it leads, or stopped by SIGSTOP.
        has_led: Whether it has acquired the lease.
        stopped_at: The call at which it was stopped by SIGSTOP; empty for none.
    """

    pid: int
    line: Connection[Any, Any]
    answer: object = None
    is_waiting: bool = True
    has_led: bool = False
    stopped_at: str = ""

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.line.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def proceed(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)
        self.is_waiting = False
        self.line.send(self.answer)


@dataclass
class ControllerGroup:
    """Two or three controllers.

    Attributes:
        setup: What each is started with.
        server: The server of their database.
        endpoint: Answers them.
        draw: Draws when a stopped one goes on.
        size: How many there are besides those that another has followed.
        record: What is written in their database.
        takeovers: Real seconds from each loss of a leader to the next one.
    """

    setup: ControllerConfig
    server: PostgresqlServer
    endpoint: Endpoint
    draw: random.Random
    size: int
    record: Record
    takeovers: list[float] = field(default_factory=list)
    _waiting: list[Member] = field(default_factory=list)
    _former: list[Member] = field(default_factory=list)
    _lost_at: float | None = None

    def run(self) -> tuple[str, str]:
        """Let one lead until it is lost; return how, and why."""
        while len(self._waiting) < self.size:
            self._waiting.append(self._fork())
        leader = self._next_leader()
        if leader is None:
            self.endpoint.report_stuck(
                f"no controller leads after {TAKEOVER_TIMEOUT:g} s"
            )
            return KILLED, STUCK
        leader.proceed()
        how, detail = self._serve(leader)
        if how in (ENDED, KILLED) and leader not in self._former:
            leader.kill()
        self._lost_at = monotonic() if how == KILLED else None
        return how, detail

    def close(self) -> None:
        """End all processes."""
        for member in (*self._waiting, *self._former):
            member.kill()

    def _fork(self) -> Member:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            ours.close()
            live(self.setup, theirs)
        theirs.close()
        return Member(pid, ours)

    def _next_leader(self) -> Member | None:
        """Wait until one of the waiting members leads."""
        end = monotonic() + TAKEOVER_TIMEOUT
        while (remaining := end - monotonic()) > 0:
            newest = self._newest()
            for member in self._waiting:
                if member.has_led and member.pid == newest:
                    if self._lost_at is not None:
                        self.takeovers.append(monotonic() - self._lost_at)
                    self._waiting.remove(member)
                    return member
            wait([member.line for member in self._waiting], remaining)
        return None

    def _newest(self) -> int | None:
        """Return the process that was the last one to acquire the lease.

        Waiting members that acquired it before are former leaders.
        """
        for member in self._waiting:
            if not member.has_led and member.line.poll():
                member.has_led = member.line.recv() == ("leads",)
        newest = self.record.leader()
        for member in tuple(self._waiting):
            if member.has_led and member.pid != newest:
                self._waiting.remove(member)
                self._former.append(member)
        return newest

    def _serve(self, leader: Member) -> tuple[str, str]:
        """Answer *leader* until it ends, is lost, or another one leads."""
        calls = self.draw.randint(5, 60)  # until former leaders go on
        while True:
            others = [member.line for member in self._waiting]
            ready = wait([leader.line, *others])
            if leader.line not in ready:
                is_deposed = self._newest() != leader.pid
                if is_deposed:
                    self._former.append(leader)
                self._settle_former()
                if is_deposed:
                    return DEPOSED, "another one leads"
                continue
            request = leader.line.recv()
            if request[0] == "ending":
                return request[1], request[2]
            try:
                answer = self.endpoint.answer(*request)
            except KilledError as death:
                if death.by == FREEZE_SERVER:
                    self.server.freeze(1.3 * LEASE_TIME)
                    answer = death.answer
                    self.endpoint.spare()
                elif death.by == FREEZE:
                    os.kill(leader.pid, signal.SIGSTOP)
                    leader.answer, leader.is_waiting = death.answer, True
                    leader.stopped_at = request[0]
                    self._former.append(leader)
                    return KILLED, str(death)
                else:
                    return KILLED, str(death)
            leader.line.send(answer)
            calls -= 1
            if not calls:
                self._settle_former()

    def _settle_former(self) -> None:
        """Let former leaders go on until they end; they must not change anything."""
        for member in self._former:
            if member.is_waiting:
                member.proceed()
            previous = member.stopped_at
            with suppress(EOFError, OSError):
                while (request := member.line.recv())[0] != "ending":
                    answer = self.endpoint.answer_former(previous, *request)
                    member.line.send(answer)
                    previous = request[0]
            member.kill()
        if self._former:
            self.endpoint.resume()
        self._former.clear()
