"""Context of the routes of the operator API: store, clock, settings and state."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from opendrs.api.access_control import AccessControl
from opendrs.api.jobs import JobQueue
from opendrs.api.oidc_sign_in import OidcSignIn
from opendrs.api.recorded_clusters import RecordedClusters
from opendrs.api.state_feed import StateFeed
from opendrs.config.settings import Settings
from opendrs.ports import (
    AccessStore,
    Clock,
    EventLog,
    HistoryReader,
    OperatorRecord,
    PlanStore,
    SharedStore,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiStores:
    """Parts of the store of the platform. Threads may share them.

    Attributes:
        store: Entries, steps and the lease; only read.
        history: Cycles and started steps.
        events: Events of the controller.
        plans: The plans; operators change their state.
        operators: State that operators set, with the audit.
        access: Tokens and sessions.
    """

    store: SharedStore
    history: HistoryReader
    events: EventLog
    plans: PlanStore
    operators: OperatorRecord
    access: AccessStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    """Context of the routes.

    A module in `routes` has a function `routes(context) -> APIRouter`. Its route
    functions are plain functions, which run in a thread. A route that needs a role has
    the parameter `principal: Principal = viewer`, or `operator`, or `admin`, of
    `opendrs.api.principal`.

    Attributes:
        platform: Name of the platform.
        settings: The configuration.
        config_path: File of the configuration; None without one.
        clock: The time.
        stores: The store.
        states: The state of the platform, and the messages about its changes.
        access: Tokens and sessions.
        clusters: Clusters of recorded cycles.
        oidc: Sign-in by OpenID Connect; None if it is not configured.
        jobs: Questions that take long; None if the server answers none.
    """

    platform: str
    settings: Settings
    config_path: Path | None
    clock: Clock
    stores: ApiStores
    states: StateFeed
    access: AccessControl
    clusters: RecordedClusters = field(default_factory=RecordedClusters)
    oidc: OidcSignIn | None = None
    jobs: JobQueue | None = None
