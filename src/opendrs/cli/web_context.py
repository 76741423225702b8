"""Context of the routes of the HTTP API, and links that sign a browser in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opendrs.api.access_control import LOGIN_TIME, AccessControl, create_token
from opendrs.api.context import ApiContext, ApiStores
from opendrs.api.job_process import ReportProgress
from opendrs.api.jobs import JobQueue
from opendrs.api.oidc_sign_in import OidcSignIn
from opendrs.api.recorded_clusters import RecordedClusters
from opendrs.api.state_feed import StateFeed
from opendrs.api.state_reader import StateReader
from opendrs.config.settings import Settings
from opendrs.controller.operator_commands import Actor
from opendrs.metrics import ImbalanceMetric
from opendrs.policies.load_metrics import imbalance_metric_of
from opendrs.ports import AccessStore, Clock, Role


@dataclass(frozen=True, slots=True)
class JobAnswers:
    """Function that answers the questions of jobs about one platform.

    It is called in the process of the jobs, which alone needs the imports.

    Attributes:
        platform: Name of the platform.
        config: The configuration file; None without one.
    """

    platform: str
    config: Path | None

    def __call__(
        self, kind: str, question: Mapping[str, Any], report: ReportProgress
    ) -> Any:  # noqa: ANN401 - plain values
        """Return the answer; see `opendrs.cli.job_answers`."""
        from opendrs.cli.job_answers import answer_question  # noqa: PLC0415

        return answer_question(self.platform, self.config, kind, question, report)


def create_context(
    platform: str,
    settings: Settings,
    config_path: Path | None,
    clock: Clock,
    stores: ApiStores,
) -> ApiContext:
    """Return what the routes use.

    Args:
        platform: Name of the platform.
        settings: The configuration.
        config_path: Its file; None without one.
        clock: The time.
        stores: The store of the platform.

    Raises:
        ConfigurationError: The library, the client secret or the certificates of
            `[web.oidc]` cannot be used.
    """
    oidc = settings.web.oidc
    reader = StateReader(
        platform,
        settings,
        clock,
        store=stores.store,
        history=stores.history,
        plans=stores.plans,
        events=stores.events,
    )
    return ApiContext(
        platform=platform,
        settings=settings,
        config_path=config_path,
        clock=clock,
        stores=stores,
        states=StateFeed(reader, clock),
        access=AccessControl(stores.access, clock, settings.web.session_time),
        clusters=RecordedClusters(metric=_imbalance_metric(settings)),
        oidc=None if oidc is None else OidcSignIn(oidc, clock),
        jobs=JobQueue(JobAnswers(platform, config_path), clock),
    )


def _imbalance_metric(settings: Settings) -> ImbalanceMetric:
    """Return the metric of the first policy of the controller, as in its reasons."""
    return imbalance_metric_of(settings.load_policy(settings.controller_policies[0]))


def sign_in_link(access: AccessStore, clock: Clock, actor: Actor, address: str) -> str:
    """Return a link to *address* that signs a browser in once, as an admin.

    The code is in the fragment of the address, which a browser sends to no server.

    Raises:
        StoreError: The store cannot be written.
    """
    created = create_token(
        access,
        clock,
        actor,
        name=actor.user,
        role=Role.ADMIN,
        seconds=LOGIN_TIME,
        single_use=True,
    )
    return f"{address}#login={created.secret}"
