"""One round of an agent: look, remember, judge, write down, ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from logging import ERROR, WARNING
from uuid import uuid4

from opendrs.agent.controller import Controller, RefusedError
from opendrs.agent.notebook import Notebook, Page, still_holds
from opendrs.controller.requests.wire import (
    LARGEST_BODY,
    LARGEST_SEQUENCE,
    MOST_SAMPLES,
    MOST_SAMPLES_IN_ALL,
    GuestSamples,
    Request,
    Samples,
    Verdict,
)
from opendrs.controller.settings import AgentSettings
from opendrs.controller.telling import tell
from opendrs.errors import ConfigurationError, PermissionDeniedError, PlatformError
from opendrs.model import NodeId, Snapshot
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.memories import Memory
from opendrs.policies.consolidation.petitions import Petition
from opendrs.ports import Clock, Platform

SEND_WITHIN = 0.8  # of an interval; then the next sample is nearer


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What is at hand on a host.

    Attributes:
        settings: What the operator said.
        policy: Judges the host, with the settings of the policy `consolidate`.
        platform: The host.
        notebook: What outlasts this process.
        controller: Who is asked.
        clock: The time.
    """

    settings: AgentSettings
    policy: Consolidate
    platform: Platform
    notebook: Notebook
    controller: Controller
    clock: Clock

    def due(self) -> datetime:
        """Return when the next round is due; after a restart as if there were none."""
        now, page = self.clock.now(), self.notebook.read()
        interval = timedelta(seconds=self.settings.interval)
        if page is None or not now < page.sampled_at + interval <= now + interval:
            return now
        return page.sampled_at + interval

    def catch_up(self) -> None:
        """Send what was written down, and not sent before the process ended.

        Raises:
            StoreError: What was written down cannot be read or kept.
        """
        page = self.notebook.read()
        if page is not None and page.request is not None and not page.delivered:
            age = (self.clock.now() - page.sampled_at).total_seconds()
            if 0 <= age < self.settings.interval:
                self._send(page, self.settings.timeout)

    def round(self, patience: float | None = None) -> bool:
        """Take a sample, judge the host by it, and tell the controller.

        Where the host or the controller cannot be asked, that is logged, and the
        next round begins with what is known.

        Args:
            patience: Seconds for which to try to tell the controller; None for
                most of an interval.

        Returns:
            Whether the controller has taken the request.

        Raises:
            ConfigurationError: The platform has no node of that name.
            StoreError: What is to be remembered cannot be kept.
        """
        before = self._last_page()
        self._follow(before)
        try:
            snapshot = self._seen()
        except PlatformError as error:
            tell("no-sample", f"no sample: {error}", level=WARNING)
            return False
        page = self._judged(snapshot, before)
        self.notebook.write(page)
        if page.request is None:
            told = f"{self.settings.node} is not measured; nothing is sent"
            tell("no-sample", told, level=WARNING)
            return False
        most = SEND_WITHIN * self.settings.interval
        return self._send(page, most if patience is None else patience)

    def _last_page(self) -> Page | None:
        """Return what was written down last; a time in the future is now."""
        page, now = self.notebook.read(), self.clock.now()
        if page is None or page.sampled_at <= now:
            return page
        message = (
            f"record: the last sample is in the future: {page.sampled_at}; it is "
            "treated as of now; check the clock of this machine"
        )
        tell("times-in-future", message, level=WARNING)
        return page.model_copy(update={"sampled_at": now})

    def _seen(self) -> Snapshot:
        """Return this node and the guests on it."""
        name = NodeId(self.settings.node)
        seen = self.platform.observe()
        if name not in seen.nodes:
            raise ConfigurationError(
                f"agent.node: {self.platform.name} has no node {name} "
                f"(there is: {', '.join(sorted(seen.nodes))})"
            )
        guests = {
            guest.id: replace(guest, migrating_to=None)
            for guest in seen.guests.values()
            if guest.node == name
        }
        return Snapshot(
            taken_at=seen.taken_at, nodes={name: seen.nodes[name]}, guests=guests
        )

    def _judged(self, snapshot: Snapshot, before: Page | None) -> Page:
        name = NodeId(self.settings.node)
        memory = self._with_newcomers(snapshot, self._memory(snapshot, before))
        petition, after = self.policy.petition(snapshot, memory, name)
        sequence = 1 if before is None else before.sequence + 1
        page = Page(
            node=name, sampled_at=snapshot.taken_at, sequence=sequence, memory=after
        )
        if petition is None:
            return page
        return page.model_copy(update={"request": self._request(page, petition)})

    def _memory(self, snapshot: Snapshot, before: Page | None) -> Memory:
        if before is None:
            return self.policy.initial_memory()
        if still_holds(before, snapshot.taken_at, self.settings.interval):
            return before.memory
        told = f"the last sample is of {before.sampled_at}; histories begin anew"
        tell("gap", told, level=WARNING)
        return self.policy.initial_memory()

    def _with_newcomers(self, snapshot: Snapshot, memory: Memory) -> Memory:
        """Return *memory* with what new guests used where they were before."""
        guests = dict(memory["guests"])
        new = [
            guest.id
            for guest in snapshot.guests.values()
            if guest.present and guest.id not in guests
        ]
        for guest in sorted(new):
            try:
                told = self.controller.samples(guest)
            except PlatformError as error:
                tell("newcomers", f"newcomers begin without a history: {error}")
                break
            if told is not None and self._fits(told, snapshot.taken_at):
                guests[guest] = [*told.samples]
        return {**memory, "guests": guests}

    def _fits(self, told: GuestSamples, now: datetime) -> bool:
        """Return whether samples of elsewhere go on with those of here."""
        interval = self.settings.interval
        # A time in the future is treated as now: the clocks of two hosts differ.
        age = max(0.0, (now - told.taken_at).total_seconds())
        return told.interval == interval and age <= 2 * interval

    def _request(self, page: Page, petition: Petition) -> Request:
        """Return what to send: of each history the newest samples that fit."""
        guests = len(page.memory["guests"])
        most = wanted = min(MOST_SAMPLES, MOST_SAMPLES_IN_ALL // (guests + 1))
        request = self._of_newest(most, page, petition)
        while (size := len(request.model_dump_json())) > LARGEST_BODY and most > 1:
            most = max(1, min(most - 1, most * LARGEST_BODY // size))
            request = self._of_newest(most, page, petition)
        if most < wanted:
            tell(
                "samples-truncated",
                f"{page.node}: request too large with the histories of {guests} "
                f"guests; the newest {most} samples of each are sent",
                level=WARNING,
                samples=most,
            )
        return request

    def _of_newest(self, most: int, page: Page, petition: Petition) -> Request:
        used = page.memory["guests"].items()
        return Request(
            id=uuid4(),
            node=page.node,
            sequence=page.sequence,
            taken_at=page.sampled_at,
            verdict=Verdict(petition["verdict"]),
            leaving=petition["leaving"],
            samples=Samples(
                interval=self.settings.interval,
                guests={guest: told[-most:] for guest, told in used},
                own=page.memory["nodes"].get(page.node, [])[-most:],
            ),
        )

    def _send(self, page: Page, patience: float) -> bool:
        try:
            page = self._delivered(page, patience)
        except PlatformError as error:
            mistaken = isinstance(error, PermissionDeniedError)
            tell("not-taken", str(error), level=ERROR if mistaken else WARNING)
            return False
        self.notebook.write(page.model_copy(update={"delivered": True}))
        request = _asked(page)
        leaving = ", ".join(request.leaving)
        tell(
            "request",
            f"{page.node} is {request.verdict}"
            + (f"; should leave: {leaving}" if leaving else ""),
            request=str(request.id),
            verdict=request.verdict,
            leaving=request.leaving,
        )
        return True

    def _delivered(self, page: Page, patience: float) -> Page:
        """Let the controller take the request of *page*; return what was taken.

        When the notebook was lost, or is that of an old backup, the controller has
        taken requests of a later number, and says which was the last: the request
        goes on from there.
        """
        try:
            self.controller.deliver(_asked(page), patience)
        except RefusedError as error:
            if error.last_sequence is None or error.last_sequence == LARGEST_SEQUENCE:
                raise
            page = _renumbered(page, error.last_sequence + 1)
            tell("renumbered", f"{error}; it goes on as {page.sequence}", level=WARNING)
            self.notebook.write(page)
            self.controller.deliver(_asked(page), patience)
        return page

    def _follow(self, page: Page | None) -> None:
        """Tell what came of the last request that asked for something."""
        request = None if page is None or not page.delivered else page.request
        if request is None or request.verdict is Verdict.CALM:
            return
        try:
            standing = self.controller.standing(request)
        except PlatformError:
            return  # the next request will tell
        if standing is not None:
            steps = [
                f"{step.id}: {step.outcome or 'running'}" for step in standing.steps
            ]
            told = "; ".join(part for part in (standing.detail, *steps) if part)
            tell(
                "standing",
                f"the last request is {standing.state}{told and f': {told}'}",
                request=str(request.id),
                state=standing.state,
            )


def _asked(page: Page) -> Request:
    assert page.request is not None  # noqa: S101 - whoever calls has seen to it
    return page.request


def _renumbered(page: Page, sequence: int) -> Page:
    """Return *page* with its request as another one, of that number."""
    request = _asked(page).model_copy(update={"id": uuid4(), "sequence": sequence})
    return page.model_copy(update={"sequence": sequence, "request": request})
