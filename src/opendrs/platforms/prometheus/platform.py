"""Platform whose load is measured by Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opendrs.config import Diagnostic
from opendrs.config.binding import TableBinder
from opendrs.config.platform_kinds import ExtensionTable, PlatformExtension
from opendrs.errors import UnexpectedResponseError
from opendrs.model import Action, Snapshot, format_list
from opendrs.platforms.prometheus.client import PrometheusClient
from opendrs.platforms.prometheus.reading import (
    Values,
    fresh_values,
    values_of,
    with_load,
)
from opendrs.platforms.prometheus.settings import AnyMeasure, PrometheusSettings
from opendrs.ports import Platform, TaskId, TaskStatus


class MeasuredPlatform:
    """Platform that takes the load of its nodes and guests from Prometheus.

    Actions and tasks are those of the platform.

    Args:
        platform: The platform.
        settings: Server and queries.

    Raises:
        ConfigurationError: The token or the certificates cannot be read.
    """

    def __init__(self, platform: Platform, settings: PrometheusSettings) -> None:
        self.name = platform.name
        self._platform = platform
        self._settings = settings
        self._subject = f"platform {platform.name}: load"
        with PrometheusClient(self._subject, settings):
            pass  # what cannot be read is an error before the first cycle

    def observe(self) -> Snapshot:
        """Return the cluster with the measured load.

        Raises:
            PlatformUnavailableError: The platform or the server is unreachable.
            UnexpectedResponseError: No series of a query is about this cluster.
        """
        snapshot = self._platform.observe()
        with PrometheusClient(self._subject, self._settings) as client:
            measured = {
                measure: values_of(measure, client.query(promql))
                for measure, promql in self._settings.promql.items()
            }
        for problem in unmatched_queries(snapshot, measured):
            raise UnexpectedResponseError(f"{self._subject}: {problem}")
        fresh = fresh_values(measured, self._settings.max_age)
        return with_load(snapshot, fresh, self._settings.loads)

    def start(self, action: Action) -> TaskId:
        """Start *action* on the platform."""
        return self._platform.start(action)

    def find(self, action: Action) -> TaskId:
        """Return the task of *action* on the platform."""
        return self._platform.find(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*."""
        return self._platform.status(task)

    def abort(self, task: TaskId) -> None:
        """Abort *task*."""
        self._platform.abort(task)


def unmatched_queries(
    snapshot: Snapshot, measured: Mapping[AnyMeasure, Values]
) -> Iterator[str]:
    """Yield the queries with series none of which is about *snapshot*."""
    names: Mapping[str, set[str]] = {
        "node": set(snapshot.nodes),
        "guest": set(snapshot.guests),
    }
    for measure, values in measured.items():
        if values and names[measure.label].isdisjoint(values):
            yield (
                f"query {measure}: no series is about a {measure.label} of the "
                f"cluster; found {format_list(sorted(values))}"
            )


def _read(
    table: ExtensionTable,
) -> tuple[PrometheusSettings | None, Iterable[Diagnostic]]:
    bound = TableBinder(PrometheusSettings, table.value, table.path)
    return bound.partial_value, bound.diagnostics


EXTENSION = PlatformExtension(read=_read, extend=MeasuredPlatform)
