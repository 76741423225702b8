"""Everything wrong in a file, and what it needs that is not there, all at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import which

from opendrs.cli.figures import counted
from opendrs.cli.sources import misfits
from opendrs.controller.plausibility import (
    implausible,
    impossible,
    incomplete,
    odd_bandwidth,
    odd_limits,
)
from opendrs.controller.settings import Settings, settings_and_complaints
from opendrs.errors import ConfigurationError
from opendrs.model import NodeAffinity, Rule, Snapshot
from opendrs.platforms.connect import Connection
from opendrs.platforms.file import (
    Complaint,
    FileForm,
    FilePlatform,
    FileSettings,
    Location,
    Severity,
    form_of,
    shown,
    shown_path,
    snapshot_and_complaints,
)
from opendrs.platforms.libvirt import LibvirtSettings
from opendrs.platforms.power import CommandSettings, RedfishSettings
from opendrs.policies import Consolidate

FIELD = re.compile(r"[a-z_]+\.[a-z_]+")
HASTY = 10.0  # seconds from one cycle to the next


@dataclass(frozen=True, slots=True)
class Examined:
    """A file that was examined.

    Attributes:
        what: What it is.
        complaints: Everything that is wrong or odd about it.
        settings: What it says as a configuration; None for anything else.
        snapshot: What it says as a snapshot; None for anything else.
    """

    what: str
    complaints: tuple[Complaint, ...]
    settings: Settings | None = None
    snapshot: Snapshot | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that it adds as a configuration."""
        return () if self.settings is None else self.settings.rules

    @property
    def usable(self) -> bool:
        """Whether nothing is wrong, however odd."""
        return all(each.severity is not Severity.ERROR for each in self.complaints)


def examined(document: object, source: str, directory: Path) -> Examined:
    """Return what is said by *document*, and all that is wrong with it.

    Args:
        document: Plain values, as parsed.
        source: Where they come from.
        directory: What relative paths begin from.
    """
    form = form_of(document)
    if form in _READERS:
        return Examined(
            form.value.name, tuple(_read(form, document, source, directory))
        )
    if form is FileForm.SNAPSHOT or _looks_like_snapshot(document):
        snapshot, complaints = snapshot_and_complaints(document, source)
        if snapshot is not None:
            complaints = (*complaints, *implausible(snapshot), *incomplete(snapshot))
        return Examined("a snapshot", complaints, snapshot=snapshot)
    settings, errors = settings_and_complaints(document, source, directory)
    found = (*errors, *_about(settings), *_about_libraries(document))
    return Examined("a configuration", found, settings=settings)


def _looks_like_snapshot(document: object) -> bool:
    signs = ("format", "taken_at", "nodes", "guests")
    return not isinstance(document, Mapping) or any(key in document for key in signs)


def _read(
    form: FileForm, document: object, source: str, directory: Path
) -> Iterator[Complaint]:
    """Yield what is wrong with a file that one command alone takes."""
    try:
        _READERS[form](document, source, directory)
    except ConfigurationError as error:
        for line in error.complaints:
            yield Complaint((), line.removeprefix(f"{source}: "))


def _scenario(document: object, source: str, directory: Path) -> None:
    from opendrs.sim.consolidation.scenario.reading import (  # noqa: PLC0415 - slow
        scenario_from,
    )

    scenario_from(document, source, directory)


def _sweep(document: object, source: str, directory: Path) -> None:
    from opendrs.sim.consolidation.sweep.form import sweep_from  # noqa: PLC0415 - slow

    sweep_from(document, source, directory)


def _drill(document: object, source: str, directory: Path) -> None:
    from opendrs.sim.drill.form.reading import drill_from  # noqa: PLC0415 - slow

    drill_from(document, source, directory)


_READERS = {
    FileForm.SCENARIO: _scenario,
    FileForm.SWEEP: _sweep,
    FileForm.DRILL: _drill,
}


def _about(settings: Settings) -> Iterator[Complaint]:
    """Yield what settings name and is not there, and what is odd about them."""
    yield from odd_limits(settings.limits)
    yield from _odd_intervals(settings)
    yield from _about_requests(settings)
    yield from _about_agent(settings)
    for connection in settings.platforms.values():
        at = ("platform", connection.name)
        if isinstance(connection.settings, FileSettings):
            yield from _about_snapshot(at, connection.settings.path, settings)
        if isinstance(connection.settings, LibvirtSettings):
            yield from _about_libvirt(at, connection.settings, settings)
        yield from _about_power((*at, "power"), connection)
    yield from _about_guests(settings)


def _odd_intervals(settings: Settings) -> Iterator[Complaint]:
    for name in ("controller", "agent"):
        part = getattr(settings, name)
        if part is not None and part.interval < HASTY:
            told = f'{part.interval:g} s is very short; did you mean "'
            told += f'{part.interval:g} min"?'
            yield _odd((name, "interval"), told)
    for name, values in settings.policy_settings.items():
        at = ("policy", name)
        try:
            policy = settings.chosen_policy(name)
        except ConfigurationError:
            continue  # complained about already
        if isinstance(policy, Consolidate):
            yield from odd_bandwidth((*at, "bandwidth"), policy.bandwidth)
        threshold = getattr(policy, "threshold", None)
        if "threshold" in values and isinstance(threshold, float) and threshold > 1:
            told = f"{threshold:g} is reached by very uneven clusters only; "
            yield _odd((*at, "threshold"), f"{told}0.1 is usual")


def _about_requests(settings: Settings) -> Iterator[Complaint]:
    requests = settings.requests
    if requests is not None:
        # Only here: to speak TLS takes a while to import.
        from opendrs.controller.requests.credentials import (  # noqa: PLC0415
            require_credentials,
        )

        yield from _caught(lambda: require_credentials(requests))


def _about_agent(settings: Settings) -> Iterator[Complaint]:
    agent = settings.agent
    if agent is None:
        return
    from opendrs.agent.courier import require_credentials  # noqa: PLC0415 - as above

    yield from _caught(lambda: require_credentials(agent))
    known = {
        node
        for connection in settings.platforms.values()
        if isinstance(connection.settings, LibvirtSettings)
        for node in connection.settings.nodes
    }
    if known and agent.node not in known:
        yield _unknown_node(("agent", "node"), agent.node, known, "any platform")


def _about_snapshot(
    at: Location, path: Path, settings: Settings
) -> Iterator[Complaint]:
    try:
        snapshot = FilePlatform(path).observe()
    except ConfigurationError as error:
        yield from (Complaint((*at, "path"), line) for line in error.complaints)
        return
    for complaint in impossible(snapshot):
        yield Complaint((*at, "path"), f"{shown_path(path)}: {complaint}")
    name = str(at[-1])
    for complaint in misfits(settings.rules, settings.limits.networks, snapshot):
        yield Complaint(complaint.at, f"{complaint.message} on platform {name}")


def _about_libvirt(
    at: Location, libvirt: LibvirtSettings, settings: Settings
) -> Iterator[Complaint]:
    if libvirt.bandwidth is not None:
        yield from odd_bandwidth((*at, "bandwidth"), libvirt.bandwidth)
    where = f"platform {at[-1]}"
    for place, nodes in _named_nodes(settings):
        for node in sorted(set(nodes) - libvirt.nodes.keys()):
            yield _unknown_node(place, node, libvirt.nodes, where)


def _about_libraries(document: object) -> Iterator[Complaint]:
    """Yield which library is missing, once for all platforms that need it."""
    platforms = document.get("platform") if isinstance(document, Mapping) else None
    if not isinstance(platforms, Mapping):
        return
    for name, table in platforms.items():
        if isinstance(table, Mapping) and table.get("kind") == "libvirt":
            from opendrs.platforms.libvirt.library import (  # noqa: PLC0415 - slow
                library,
            )

            try:
                library()
            except ConfigurationError as error:
                yield Complaint(("platform", name, "kind"), "; ".join(error.complaints))
            return


def _named_nodes(settings: Settings) -> Iterator[tuple[Location, Iterable[str]]]:
    for index, rule in enumerate(settings.rules):
        if isinstance(rule, NodeAffinity):
            yield ("rules", index, "nodes"), rule.nodes
    for index, network in enumerate(settings.limits.networks):
        yield ("limits", "networks", index, "nodes"), network.nodes


def _about_power(at: Location, connection: Connection) -> Iterator[Complaint]:
    if connection.power is None:
        return
    from opendrs.platforms.power.redfish import (  # noqa: PLC0415 - slow
        require_credentials,
    )

    every = dict(connection.power.nodes)
    if connection.power.default is not None:
        every["every node"] = connection.power.default
    told: set[object] = set()  # what nodes share is told once
    for node, settings in every.items():
        if isinstance(settings, RedfishSettings):
            files = (settings.password_file, settings.password_env, settings.ca)
            if files not in told:
                told.add(files)
                yield from _caught(partial(require_credentials, node, settings), at)
        elif isinstance(settings, CommandSettings):
            yield from _about_programs(at, settings, told)


def _about_programs(
    at: Location, settings: CommandSettings, told: set[object]
) -> Iterator[Complaint]:
    for name in ("on", "off", "state"):
        words = getattr(settings, name)
        program = words[0] if words else "true"
        if program not in told and "{" not in program and which(program) is None:
            told.add(program)
            yield _odd((*at, name), f"there is no program {shown(program)} here")


def _about_guests(settings: Settings) -> Iterator[Complaint]:
    """Yield a warning where guests are named that only a platform knows."""
    asked = [
        name
        for name, connection in settings.platforms.items()
        if isinstance(connection.settings, LibvirtSettings)
    ]
    guests = {guest for rule in settings.rules for guest in _guests(rule)}
    if asked and guests:
        yield _odd(
            ("rules",),
            f"only the platform knows whether {counted(len(guests), 'guest')} that "
            f"they name are there; opendrs check {asked[0]} asks it",
        )


def _guests(rule: Rule) -> frozenset[str]:
    return getattr(rule, "guests", frozenset())


def _unknown_node(
    at: Location, node: str, known: Iterable[str], where: str
) -> Complaint:
    return Complaint(
        at, f"there is no node {shown(node)} on {where}", node, tuple(known)
    )


def _odd(at: Location, message: str) -> Complaint:
    return Complaint(at, message, severity=Severity.WARNING)


def _caught(look: Callable[[], object], at: Location = ()) -> Iterator[Complaint]:
    """Yield what *look* complains about."""
    try:
        look()
    except ConfigurationError as error:
        for line in error.complaints:
            field, colon, rest = line.partition(": ")
            if not at and colon and FIELD.fullmatch(field):
                yield Complaint(tuple(field.split(".")), rest)
            else:
                yield Complaint(at, line)
