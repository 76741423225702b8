"""Reader of drill files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from opendrs.config import (
    Diagnostic,
    DiagnosticCode,
    FileFormat,
    display_path,
    duplicate_key_diagnostics,
    error_diagnostics,
    parse,
    pydantic_diagnostics,
    raise_diagnostics,
    read_snapshot,
    read_text,
    require_format,
    snapshot_and_diagnostics,
)
from opendrs.config.snapshot_schema import FORMAT
from opendrs.errors import InvalidFileError, ModelError
from opendrs.escapes import repr_value
from opendrs.model import GuestId, NodeId, Snapshot
from opendrs.pve_ha.simulator.cmdlist import CommandStep
from opendrs.pve_ha.simulator.event_schedule import ScheduledEvent, run_schedule
from opendrs.pve_ha.simulator.file_format.assertions import (
    DrillState,
    failed_expectations,
)
from opendrs.pve_ha.simulator.file_format.event_actions import actions_of, failures_from
from opendrs.pve_ha.simulator.file_format.references import (
    KnownNames,
    added_guests,
    reference_diagnostics,
)
from opendrs.pve_ha.simulator.file_format.schema import (
    DRILL_ADAPTER,
    FIELDS,
    DatacenterEntry,
    DefaultsEntry,
    DrillEntry,
    ExpectEntry,
    ServiceEntry,
)
from opendrs.pve_ha.simulator.history import read_history
from opendrs.pve_ha.simulator.pve_names import PveNames, assign_names
from opendrs.pve_ha.simulator.run import Drill, TimeObserver, ignore_time
from opendrs.pve_ha.simulator.service_requests import (
    ServiceRequest,
    ServiceRequests,
    managed_guests,
)
from opendrs.pve_ha.simulator.setup import DrillSetup, prepare_drill
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import CrsSettings, DatacenterSettings

DEFAULT_TIME = "2000-01-01T00:00:00Z"  # a drill needs no date


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillFile:
    """The drill of a file.

    Attributes:
        source: Name of the file, for error messages.
        title: Title; empty if there is none.
        setup: Initial state.
        schedule: Events after the start.
        expectations: Expected results.
        log: Expected log; None if there is none.
        until: Shortest duration of the drill, in seconds.
    """

    source: str
    title: str
    setup: DrillSetup
    schedule: tuple[ScheduledEvent, ...]
    expectations: tuple[ExpectEntry, ...]
    log: str | None
    until: int

    def run(self, observer: TimeObserver = ignore_time) -> Drill:
        """Run the drill.

        Raises:
            InvalidFileError: An event is not possible in the state at its time.
        """
        steps = (*self.setup.initial_events, *self.schedule)
        return run_schedule(self.setup.scenario, steps, self.until, observer)

    def failed_expectations(self, drill: Drill) -> tuple[str, ...]:
        """Return a message for each expectation that *drill* does not meet."""
        drill_state = DrillState(drill, read_history(drill), self.setup.names)
        return tuple(
            f"{self.source}: expect[{index}]: {failure}"
            for index, entry in enumerate(self.expectations)
            for failure in failed_expectations(entry, drill_state)
        )


def read_drill(path: Path) -> DrillFile:
    """Return the drill of the file *path*.

    Raises:
        InvalidFileError: The file is invalid; contains all errors.
    """
    source = display_path(path)
    return drill_from(parse(read_text(path), source, path.suffix), source, path.parent)


def drill_from(document: object, source: str, folder: Path) -> DrillFile:
    """Return the drill in *document*.

    Args:
        document: Plain values, as parsed.
        source: Name of their source, for error messages.
        folder: Directory of the files that it refers to.

    Raises:
        InvalidFileError: The document is invalid; contains all errors.
    """
    require_format(document, source, FileFormat.DRILL)
    drill, diagnostics = drill_and_diagnostics(document, source, folder)
    raise_diagnostics(source, diagnostics, InvalidFileError)
    assert drill is not None  # noqa: S101 - else there are diagnostics
    return drill


def drill_and_diagnostics(
    document: object, source: str, folder: Path
) -> tuple[DrillFile | None, tuple[Diagnostic, ...]]:
    """Return the drill in *document*, or None with the errors.

    Args:
        document: Plain values, as parsed.
        source: Name of their source, for error messages.
        folder: Directory of the files that it refers to.
    """
    diagnostics: list[Diagnostic] = []
    try:
        entry = DRILL_ADAPTER.validate_python(document)
    except ValidationError as error:
        diagnostics += pydantic_diagnostics(error, known_keys=FIELDS)
    table = document if isinstance(document, Mapping) else {}
    snapshot, snapshot_diagnostics = _snapshot(table, source, folder)
    diagnostics += snapshot_diagnostics
    diagnostics += duplicate_key_diagnostics({**table, "snapshot": None})
    if snapshot is not None:
        diagnostics += reference_diagnostics(table, _known(table, snapshot))
    if diagnostics or snapshot is None:
        return None, tuple(diagnostics)
    try:
        return _drill(entry, snapshot, source, folder), ()
    except ModelError as error:
        return None, (Diagnostic((), str(error), code=DiagnosticCode.INCONSISTENT),)
    except InvalidFileError as error:
        return None, _unusable_file("log", error)


def _snapshot(
    table: Mapping[str, object], source: str, folder: Path
) -> tuple[Snapshot | None, tuple[Diagnostic, ...]]:
    """Return the snapshot of a drill, or None with the errors."""
    value, path = table.get("snapshot"), ("snapshot",)
    try:
        if isinstance(value, str):
            return read_snapshot(folder / value), ()
        if isinstance(value, Mapping):
            document = {"format": FORMAT, "taken_at": DEFAULT_TIME, **value}
            snapshot, diagnostics = snapshot_and_diagnostics(document, source)
            located = (replace(each, path=path + each.path) for each in diagnostics)
            return snapshot, tuple(located)
    except InvalidFileError as error:
        return None, _unusable_file("snapshot", error)
    if path[0] not in table:
        return None, ()  # reported by the schema
    message = f"expected a file name or a table, got {repr_value(value)}"
    return None, (Diagnostic(path, message, code=DiagnosticCode.WRONG_TYPE),)


def _unusable_file(field: str, error: InvalidFileError) -> tuple[Diagnostic, ...]:
    """Return the errors of the file that *field* names."""
    return error_diagnostics(error, (field,))


def _known(table: Mapping[str, object], snapshot: Snapshot) -> KnownNames:
    services = table.get("services")
    named = {
        GuestId(name): ServiceRequest(managed=_is_managed(entry))
        for name, entry in (services if isinstance(services, Mapping) else {}).items()
    }
    managed = managed_guests(snapshot, ServiceRequests(by_guest=named))
    return KnownNames(
        nodes=snapshot.nodes,
        guests=snapshot.guests,
        services={*(guest.id for guest in managed), *added_guests(table)},
    )


def _is_managed(entry: object) -> bool:
    return not isinstance(entry, Mapping) or entry.get("managed") is not False


def _drill(
    entry: DrillEntry, snapshot: Snapshot, source: str, folder: Path
) -> DrillFile:
    nodes = assign_names((), snapshot.nodes).nodes
    defaults = entry.get("defaults", {})
    requests = ServiceRequests(
        by_guest={
            GuestId(name): _service_request(defaults, service, nodes)
            for name, service in entry.get("services", {}).items()
        },
        default=_service_request(defaults, {}, nodes),
    )
    setup = prepare_drill(snapshot, requests, _datacenter(entry.get("datacenter", {})))
    setup = replace(setup, names=_with_added(setup.names, added_guests({**entry})))
    log = entry.get("log")
    return DrillFile(
        source=source,
        title=entry.get("title", ""),
        setup=setup,
        schedule=tuple(_schedule(entry, setup.names, source)),
        expectations=tuple(entry.get("expect", ())),
        log=None if log is None else read_text(folder / log),
        until=entry.get("until", 0),
    )


def _service_request(
    defaults: DefaultsEntry, entry: ServiceEntry, nodes: Mapping[NodeId, NodeId]
) -> ServiceRequest:
    values: DefaultsEntry = {**defaults, **entry}  # type: ignore[typeddict-unknown-key]
    default, failures = ServiceRequest(), entry.get("fails")
    return ServiceRequest(
        state=values.get("state"),
        failback=values.get("failback", default.failback),
        max_restart=values.get("max_restart", default.max_restart),
        max_relocate=values.get("max_relocate", default.max_relocate),
        lock=entry.get("lock"),
        failures=None if failures is None else failures_from(failures, nodes),
        managed=entry.get("managed"),
    )


def _datacenter(entry: DatacenterEntry) -> DatacenterSettings:
    defaults = DatacenterSettings()
    scheduling = defaults.scheduling
    return DatacenterSettings(
        CrsSettings(
            mode=entry.get("scheduler", scheduling.mode),
            rebalance_on_start=entry.get(
                "rebalance_on_start", scheduling.rebalance_on_start
            ),
            auto_rebalance=entry.get("auto_rebalance", scheduling.auto_rebalance),
            threshold=entry.get("threshold", scheduling.threshold),
            method=entry.get("method", scheduling.method),
            hold=entry.get("hold", scheduling.hold),
            margin=entry.get("margin", scheduling.margin),
        ),
        entry.get("shutdown_policy", defaults.shutdown_policy),
    )


def _with_added(names: PveNames, added: Iterable[str]) -> PveNames:
    further = {GuestId(name): ServiceId(name) for name in added}
    return replace(names, services={**further, **names.services})


def _schedule(
    entry: DrillEntry, names: PveNames, source: str
) -> Iterator[ScheduledEvent]:
    for index, event in enumerate(entry.get("events", ())):
        for text, action in actions_of(event, names):
            yield ScheduledEvent(
                event["at"], CommandStep(text, f"{source}: events[{index}]", action)
            )
