"""A controller, put together from what the operator has configured."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from opendrs.cli.sources import Source, misfits, observe, record_of
from opendrs.controller import Brake, Means
from opendrs.controller.deciding import Decider, PolicyAlone
from opendrs.controller.loop import Bell, Controller, Routine
from opendrs.controller.requests.credentials import require_credentials
from opendrs.controller.requests.docket import Docket
from opendrs.controller.requests.settings import RequestSettings
from opendrs.controller.settings import Settings
from opendrs.controller.steplog import StepLog
from opendrs.controller.stores import SqliteInbox
from opendrs.controller.telling import tell
from opendrs.model import Snapshot
from opendrs.policies import Consolidate, Policy
from opendrs.ports import Inbox


class Parts:
    """What a controller is put together from.

    Args:
        settings: What the operator has configured.
        source: The platform it looks after.
        brake: How the operator stops it.
        stack: What ends with it.

    Raises:
        ConfigurationError: Requests cannot be taken as the settings say; then
            there is no record either.
        StoreError: The record cannot be kept, or another process keeps it.
    """

    def __init__(
        self, settings: Settings, source: Source, brake: Brake, stack: ExitStack
    ) -> None:
        self._settings = settings
        self._source = source
        self._brake = brake
        self._stack = stack
        self._bell = Bell()
        if settings.requests is not None:
            # Before anything is written; it is read again when it is used.
            require_credentials(settings.requests)
        self._store = stack.enter_context(record_of(source, settings))

    def controller(self, *, serving: bool) -> Controller:
        """Return the controller.

        Args:
            serving: Whether requests are taken; those that are written down are
                decided about anyway.

        Raises:
            ConfigurationError: The address of the settings cannot be listened on.
        """
        self._tell_start()
        requests = self._settings.requests
        decider: Decider
        require_alive: Callable[[], None] = _nothing
        if requests is None:
            decider = PolicyAlone(policy_of(self._settings), self._store)
        else:
            inbox = SqliteInbox(self._store)
            decider = self._docket(requests, inbox)
            if serving:
                require_alive = self._serve(requests, inbox)
        routine = Routine(
            interval=self._settings.controller.interval,
            gathering=0.0 if requests is None else requests.gathering,
            observe=Sight(self._source).look,
            require_alive=require_alive,
        )
        return Controller(routine, self._means(decider), decider, self._bell)

    def _means(self, decider: Decider) -> Means:
        return Means(
            platform=self._source.platform,
            clock=self._source.clock,
            store=self._store,
            limits=decider.policy.limits,
            watcher=StepLog(self._brake),
            brake=self._brake,
        )

    def _docket(self, requests: RequestSettings, inbox: Inbox) -> Docket:
        policy = policy_of(self._settings)
        assert isinstance(policy, Consolidate)  # noqa: S101 - or there was a complaint
        interval = self._settings.controller.interval
        freshness = requests.freshness(interval)
        return Docket(policy, inbox, self._store, self._source.clock, freshness)

    def _serve(self, requests: RequestSettings, inbox: Inbox) -> Callable[[], None]:
        """Take requests from now on; return how to check that they still are."""
        from opendrs.controller.requests.desk import Desk  # noqa: PLC0415
        from opendrs.controller.requests.server import Server  # noqa: PLC0415

        freshness = requests.freshness(self._settings.controller.interval)
        clock, ring = self._source.clock, self._bell.ring
        desk = Desk(inbox, self._store, clock, freshness, ring)
        server = self._stack.enter_context(Server(requests, desk))
        host, port = server.address
        shown = f"[{host}]" if ":" in host else host
        tell(
            "listening",
            f"requests are taken at https://{shown}:{port}",
            address=host,
            port=port,
        )
        return server.require_alive

    def _tell_start(self) -> None:
        name, interval = self._source.platform.name, self._settings.controller.interval
        tell(
            "started",
            f"{name}: a cycle each {interval:g} s, by the policy "
            f"{self._settings.policy}",
            platform=name,
            interval=interval,
            policy=self._settings.policy,
        )


class Sight:
    """Looks at the cluster. In the beginning the rules must fit it.

    A guest that a rule names may be deleted one day, and that is no reason to leave
    all others alone: later such a rule is told, once.

    Args:
        source: The platform.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._first = True
        self._told: tuple[str, ...] = ()

    def look(self) -> Snapshot:
        """Return the cluster as it is now.

        Raises:
            ConfigurationError: At the first look a rule does not fit it.
            PlatformError: It cannot be seen.
        """
        if self._first:
            snapshot = observe(self._source)
            self._first = False
            return snapshot
        snapshot = self._source.platform.observe()
        found = tuple(
            map(str, misfits(self._source.rules, self._source.networks, snapshot))
        )
        for complaint in found:
            if complaint not in self._told:
                tell("rule-misfit", complaint, level=logging.WARNING)
        self._told = found
        return snapshot


def policy_of(settings: Settings) -> Policy[Any]:
    """Return the policy; one that counts in cycles is told how long they are."""
    consolidates = settings.policy == Consolidate.name
    changes = {"interval": settings.controller.interval} if consolidates else {}
    return settings.chosen_policy(changes=changes)


def _nothing() -> None:
    """Check nothing: there is nothing beside the cycles."""
