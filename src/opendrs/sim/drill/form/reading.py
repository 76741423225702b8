"""From a drill file to a drill that can be held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from opendrs.errors import InvalidFileError, ModelError
from opendrs.ha.documents import Datacenter, Scheduling
from opendrs.ha.identifiers import ServiceId
from opendrs.model import GuestId, NodeId, Snapshot
from opendrs.platforms.file import (
    Complaint,
    FileForm,
    complain,
    parse,
    read_snapshot,
    read_text,
    repeated_keys,
    require_form,
    shown,
    shown_path,
    snapshot_from,
    translated,
)
from opendrs.platforms.file.wire import FORMAT
from opendrs.sim.drill.form.deeds import deeds_of
from opendrs.sim.drill.form.expectations import disappointments
from opendrs.sim.drill.form.guests import failures_from
from opendrs.sim.drill.form.judgements import Outcome
from opendrs.sim.drill.form.references import Known, added_guests, unfit
from opendrs.sim.drill.form.wire import (
    DRILL,
    FIELDS,
    DatacenterEntry,
    DefaultsEntry,
    DrillEntry,
    ExpectEntry,
    ServiceEntry,
)
from opendrs.sim.drill.history import history_of
from opendrs.sim.drill.naming import Names, names_for
from opendrs.sim.drill.parsing import Step
from opendrs.sim.drill.running import Drill, Watcher, ignored
from opendrs.sim.drill.stage import Stage, staged
from opendrs.sim.drill.timetable import Appointment, keep_timetable
from opendrs.sim.drill.wishes import Wish, Wishes, managed_guests

SOME_TIME = "2000-01-01T00:00:00Z"  # a drill has no date


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillFile:
    """A drill as a file describes it.

    Attributes:
        source: The file, to begin complaints with.
        title: What the operator calls it; empty when it has no name.
        stage: The cluster.
        timetable: What happens, after the beginning.
        expectations: What is expected.
        log: The log that is expected; None for none.
        until: How long it lasts at least, in seconds.
    """

    source: str
    title: str
    stage: Stage
    timetable: tuple[Appointment, ...]
    expectations: tuple[ExpectEntry, ...]
    log: str | None
    until: int

    def hold(self, watcher: Watcher = ignored) -> Drill:
        """Return what happens.

        Raises:
            InvalidFileError: An event cannot take place as things are then.
        """
        steps = (*self.stage.opening, *self.timetable)
        return keep_timetable(self.stage.scenario, steps, self.until, watcher)

    def disappointments(self, drill: Drill) -> tuple[str, ...]:
        """Return what came otherwise than expected, each in a line."""
        outcome = Outcome(drill, history_of(drill), self.stage.names)
        return tuple(
            f"{self.source}: expect[{index}]: {found}"
            for index, entry in enumerate(self.expectations)
            for found in disappointments(entry, outcome)
        )


def read_drill(path: Path) -> DrillFile:
    """Return the drill that the file *path* describes.

    Raises:
        InvalidFileError: It describes none; with everything that is wrong.
    """
    source = shown_path(path)
    return drill_from(parse(read_text(path), source, path.suffix), source, path.parent)


def drill_from(document: object, source: str, folder: Path) -> DrillFile:
    """Return the drill that *document* describes.

    Args:
        document: Plain values, as parsed.
        source: Where they come from, to begin complaints with.
        folder: Where the files are that it names.

    Raises:
        InvalidFileError: They describe none; with everything that is wrong.
    """
    require_form(document, source, FileForm.DRILL)
    wrong: list[Complaint] = []
    try:
        entry = DRILL.validate_python(document)
    except ValidationError as error:
        wrong += translated(error, known=FIELDS)
    table = document if isinstance(document, Mapping) else {}
    snapshot = _snapshot(table, source, folder, wrong)
    wrong += repeated_keys({**table, "snapshot": None})
    if snapshot is not None:
        wrong += unfit(table, _known(table, snapshot))
    complain(source, wrong, InvalidFileError)
    if snapshot is None:  # which was complained about
        raise InvalidFileError(f"{source}: snapshot: is missing")
    try:
        return _drill(entry, snapshot, source, folder)
    except ModelError as error:
        raise InvalidFileError(f"{source}: {error}") from error


def _snapshot(
    table: Mapping[str, object], source: str, folder: Path, wrong: list[Complaint]
) -> Snapshot | None:
    """Return the snapshot of a drill, or None once it was complained about."""
    found = table.get("snapshot")
    if found is None:
        return None
    try:
        if isinstance(found, str):
            return read_snapshot(folder / found)
        if isinstance(found, Mapping):
            whole = {"format": FORMAT, "taken_at": SOME_TIME, **found}
            return snapshot_from(whole, f"{source}: snapshot")
    except InvalidFileError as error:
        told = [f"{source}: {complaint}" for complaint in wrong]
        raise InvalidFileError(*told, *error.complaints) from error
    what = "expected a file or a table of named values"
    wrong.append(Complaint(("snapshot",), f"{what}, found {shown(found)}"))
    return None


def _known(table: Mapping[str, object], snapshot: Snapshot) -> Known:
    services = table.get("services")
    named = {
        GuestId(name): Wish(managed=_is_managed(entry))
        for name, entry in (services if isinstance(services, Mapping) else {}).items()
    }
    managed = managed_guests(snapshot, Wishes(of=named))
    return Known(
        nodes=snapshot.nodes,
        guests=snapshot.guests,
        services={*(guest.id for guest in managed), *added_guests(table)},
    )


def _is_managed(entry: object) -> bool:
    return not isinstance(entry, Mapping) or entry.get("managed") is not False


def _drill(
    entry: DrillEntry, snapshot: Snapshot, source: str, folder: Path
) -> DrillFile:
    nodes = names_for((), snapshot.nodes).nodes
    defaults = entry.get("defaults", {})
    wishes = Wishes(
        of={
            GuestId(name): _wish(defaults, service, nodes)
            for name, service in entry.get("services", {}).items()
        },
        otherwise=_wish(defaults, {}, nodes),
    )
    stage = staged(snapshot, wishes, _datacenter(entry.get("datacenter", {})))
    stage = replace(stage, names=_with_added(stage.names, added_guests({**entry})))
    log = entry.get("log")
    return DrillFile(
        source=source,
        title=entry.get("title", ""),
        stage=stage,
        timetable=tuple(_timetable(entry, stage.names, source)),
        expectations=tuple(entry.get("expect", ())),
        log=None if log is None else read_text(folder / log),
        until=entry.get("until", 0),
    )


def _wish(
    defaults: DefaultsEntry, entry: ServiceEntry, nodes: Mapping[NodeId, NodeId]
) -> Wish:
    said: DefaultsEntry = {**defaults, **entry}  # type: ignore[typeddict-unknown-key]
    usual, fails = Wish(), entry.get("fails")
    return Wish(
        state=said.get("state"),
        failback=said.get("failback", usual.failback),
        max_restart=said.get("max_restart", usual.max_restart),
        max_relocate=said.get("max_relocate", usual.max_relocate),
        lock=entry.get("lock"),
        fails=None if fails is None else failures_from(fails, nodes),
        managed=entry.get("managed"),
    )


def _datacenter(entry: DatacenterEntry) -> Datacenter:
    usual = Datacenter()
    scheduling = usual.scheduling
    return Datacenter(
        Scheduling(
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
        entry.get("shutdown_policy", usual.shutdown_policy),
    )


def _with_added(names: Names, added: Iterable[str]) -> Names:
    further = {GuestId(name): ServiceId(name) for name in added}
    return replace(names, services={**further, **names.services})


def _timetable(entry: DrillEntry, names: Names, source: str) -> Iterator[Appointment]:
    for index, event in enumerate(entry.get("events", ())):
        for text, action in deeds_of(event, names):
            yield Appointment(
                event["at"], Step(text, f"{source}: events[{index}]", action)
            )
