"""Validate configurations, rules, snapshots, scenarios, sweeps and drills."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import which

from opendrs.cli.platforms import PLATFORMS, kind_of, power_settings
from opendrs.cli.sources import limit_mismatches, name_mismatches
from opendrs.config import (
    Diagnostic,
    DiagnosticCode,
    FileFormat,
    KeyPath,
    Severity,
    detect_format,
    display_path,
    error_diagnostics,
    snapshot_and_diagnostics,
)
from opendrs.config.oidc_settings import require_joserfc
from opendrs.config.platform_kinds import PlatformConnection
from opendrs.config.plausibility import (
    check_bandwidth,
    check_limits,
    find_implausible,
    find_impossible,
    find_incomplete,
)
from opendrs.config.settings import Settings
from opendrs.config.settings_reading import settings_and_diagnostics
from opendrs.errors import ConfigurationError
from opendrs.escapes import repr_value
from opendrs.model import NodeAffinity, Rule, Snapshot, format_count, rule_guests
from opendrs.platforms.snapshot_file import SnapshotFilePlatform, SnapshotFileSettings
from opendrs.policies.consolidation import Consolidate
from opendrs.power import PowerCommandSettings, PowerSettings, RedfishSettings

_KEY_PATH = re.compile(r"[a-z_]+\.[a-z_]+")
MIN_USUAL_INTERVAL = 10.0  # seconds from one cycle to the next


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Result of the validation of a file or a cluster.

    Attributes:
        description: The type of the file, such as `a snapshot`.
        diagnostics: All errors and warnings.
        settings: The settings of a configuration; None for other files.
        snapshot: The snapshot; None for files without one.
    """

    description: str
    diagnostics: tuple[Diagnostic, ...]
    settings: Settings | None = None
    snapshot: Snapshot | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the configuration; empty for other files."""
        return () if self.settings is None else self.settings.rules

    @property
    def is_valid(self) -> bool:
        """True if there are no errors; there may be warnings."""
        return all(each.severity is not Severity.ERROR for each in self.diagnostics)


def validate_document(
    document: object, source: str, directory: Path
) -> ValidationResult:
    """Validate *document* and return its contents with all errors and warnings.

    Args:
        document: The parsed file.
        source: The name of the file, for messages.
        directory: The directory that relative paths refer to.
    """
    file_format = detect_format(document)
    if file_format in (FileFormat.SCENARIO, FileFormat.SWEEP, FileFormat.DRILL):
        return ValidationResult(
            file_format.value.name,
            _read_diagnostics(file_format, document, source, directory),
        )
    if file_format is FileFormat.SNAPSHOT or _looks_like_snapshot(document):
        snapshot, snapshot_diagnostics = snapshot_and_diagnostics(document, source)
        if snapshot is not None:
            snapshot_diagnostics = (
                *snapshot_diagnostics,
                *find_implausible(snapshot),
                *find_incomplete(snapshot),
            )
        return ValidationResult("a snapshot", snapshot_diagnostics, snapshot=snapshot)
    settings, errors = settings_and_diagnostics(document, source, directory, PLATFORMS)
    diagnostics = (
        *errors,
        *_settings_diagnostics(settings),
        *_library_diagnostics(document),
    )
    return ValidationResult("a configuration", diagnostics, settings=settings)


def _looks_like_snapshot(document: object) -> bool:
    snapshot_keys = ("format", "taken_at", "nodes", "guests")
    return not isinstance(document, Mapping) or any(
        key in document for key in snapshot_keys
    )


def _read_diagnostics(
    file_format: FileFormat, document: object, source: str, directory: Path
) -> tuple[Diagnostic, ...]:
    """Return the errors of a file that only one command reads."""
    # Imported here because these packages are slow to import.
    if file_format is FileFormat.SCENARIO:
        from opendrs.simulation.scenario.parsing import (  # noqa: PLC0415
            scenario_and_diagnostics,
        )

        return scenario_and_diagnostics(document, directory)[1]
    if file_format is FileFormat.SWEEP:
        from opendrs.simulation.sweep.parsing import (  # noqa: PLC0415
            sweep_and_diagnostics,
        )

        return sweep_and_diagnostics(document, directory)[1]
    from opendrs.pve_ha.simulator.file_format import (  # noqa: PLC0415
        drill_and_diagnostics,
    )

    return drill_and_diagnostics(document, source, directory)[1]


def _settings_diagnostics(settings: Settings) -> Iterator[Diagnostic]:
    """Yield errors of referenced files and nodes, and warnings about odd values."""
    yield from check_limits(settings.limits)
    yield from _interval_warnings(settings)
    yield from _api_diagnostics(settings)
    yield from _notification_diagnostics(settings)
    yield from _agent_diagnostics(settings)
    for connection in settings.platforms.values():
        yield from _platform_diagnostics(connection, settings)
    yield from _limit_diagnostics(settings)
    yield from _guest_warnings(settings)


def _interval_warnings(settings: Settings) -> Iterator[Diagnostic]:
    intervals: dict[KeyPath, float] = {
        ("schedule", index, "interval"): entry.interval
        for index, entry in enumerate(settings.schedule)
    }
    for name in ("controller", "agent"):
        part = getattr(settings, name)
        if part is not None:
            intervals[name, "interval"] = part.interval
    for at, interval in intervals.items():
        if interval < MIN_USUAL_INTERVAL:
            message = f"{interval:g} s is very short; did you mean "
            message += f'"{interval:g} min"?'
            yield Diagnostic.warning(at, message, DiagnosticCode.IMPLAUSIBLE)
    for name, values in settings.policy_settings.items():
        path = ("policy", name)
        try:
            policy = settings.load_policy(name)
        except ConfigurationError:
            continue  # already reported
        if isinstance(policy, Consolidate):
            yield from check_bandwidth((*path, "bandwidth"), policy.bandwidth)
        threshold = getattr(policy, "threshold", None)
        if "threshold" in values and isinstance(threshold, float) and threshold > 1:
            message = f"{threshold:g} is exceeded only in very imbalanced clusters; "
            message += "0.1 is usual"
            yield Diagnostic.warning(
                (*path, "threshold"), message, DiagnosticCode.IMPLAUSIBLE
            )


def _api_diagnostics(settings: Settings) -> Iterator[Diagnostic]:
    requests = settings.api
    if requests is not None:
        # Imported here because TLS is slow to import.
        from opendrs.api.tls import check_credentials  # noqa: PLC0415

        yield from _catch_diagnostics(lambda: check_credentials(requests))


def _notification_diagnostics(settings: Settings) -> Iterator[Diagnostic]:
    tables = settings.notifications
    if not tables:
        return
    from opendrs.monitoring.notifications import create_notifiers  # noqa: PLC0415 - as above

    yield from _catch_diagnostics(lambda: create_notifiers(tables, platform=""))


def _agent_diagnostics(settings: Settings) -> Iterator[Diagnostic]:
    agent = settings.agent
    if agent is None:
        return
    from opendrs.agent.http_client import check_agent_credentials  # noqa: PLC0415 - as above

    yield from _catch_diagnostics(lambda: check_agent_credentials(agent))
    known = {
        node
        for connection in settings.platforms.values()
        for node in connection.nodes or ()
    }
    if known and agent.node not in known:
        yield _unknown_node(("agent", "node"), agent.node, known, "any platform")


def _platform_diagnostics(
    connection: PlatformConnection, settings: Settings
) -> Iterator[Diagnostic]:
    path = ("platform", connection.name)
    if isinstance(connection.settings, SnapshotFileSettings):
        yield from _snapshot_diagnostics(path, connection.settings.path, settings)
    if connection.settings is not None:
        yield from kind_of(connection).check(path, connection.settings)
    if connection.nodes is not None:
        yield from _node_diagnostics(connection.name, connection.nodes, settings)
    yield from _power_diagnostics((*path, "power"), power_settings(connection))


def _snapshot_diagnostics(
    path: KeyPath, file: Path, settings: Settings
) -> Iterator[Diagnostic]:
    try:
        snapshot = SnapshotFilePlatform(file).observe()
    except ConfigurationError as error:
        yield from error_diagnostics(error, (*path, "path"))
        return
    for diagnostic in find_impossible(snapshot):
        message = f"{display_path(file)}: {diagnostic}"
        yield Diagnostic((*path, "path"), message, code=diagnostic.code)
    name, limits = str(path[-1]), settings.limits
    for diagnostic in name_mismatches(
        settings.rules, limits.networks, snapshot, limits.overrides
    ):
        message = f"{diagnostic.message} on platform {name}"
        yield replace(diagnostic, message=message)


def _limit_diagnostics(settings: Settings) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each name in the limits that is in no snapshot file.

    Names are checked if every platform is such a file that can be read.
    """
    limits = settings.limits
    if not any((limits.storage_groups, limits.loads, limits.tolerated_domain)):
        return
    snapshots: list[Snapshot] = []
    for connection in settings.platforms.values():
        if not isinstance(connection.settings, SnapshotFileSettings):
            return
        try:
            snapshots.append(SnapshotFilePlatform(connection.settings.path).observe())
        except ConfigurationError:
            return  # already reported
    if snapshots:
        yield from limit_mismatches(limits, snapshots)


def _node_diagnostics(
    name: str, known: Collection[str], settings: Settings
) -> Iterator[Diagnostic]:
    """Yield an error for each node in rules and networks that is not in *known*."""
    for key_path, nodes in _referenced_nodes(settings):
        for node in sorted(set(nodes) - set(known)):
            yield _unknown_node(key_path, node, known, f"platform {name}")


def _library_diagnostics(document: object) -> Iterator[Diagnostic]:
    """Yield an error for each part of the configuration whose library is missing."""
    tables = document if isinstance(document, Mapping) else {}
    web = tables.get("web")
    if isinstance(web, Mapping) and "oidc" in web:
        yield from _missing_library(("web", "oidc"), require_joserfc)
    platforms = tables.get("platform")
    if not isinstance(platforms, Mapping):
        return
    first_of_kind: dict[str, str] = {}
    for name, table in platforms.items():
        kind = table.get("kind") if isinstance(table, Mapping) else None
        if isinstance(kind, str) and kind in PLATFORMS.kinds:
            first_of_kind.setdefault(kind, name)
    for kind, name in first_of_kind.items():
        require = PLATFORMS.kinds[kind]().require_library
        yield from _missing_library(("platform", name, "kind"), require)


def _missing_library(
    path: KeyPath, require: Callable[[], object]
) -> Iterator[Diagnostic]:
    try:
        require()
    except ConfigurationError as error:
        message = "; ".join(error.messages)
        yield Diagnostic(path, message, code=DiagnosticCode.UNUSABLE_LIBRARY)


def _referenced_nodes(settings: Settings) -> Iterator[tuple[KeyPath, Iterable[str]]]:
    for index, rule in enumerate(settings.rules):
        if isinstance(rule, NodeAffinity):
            yield ("rules", index, "nodes"), rule.nodes
    for index, network in enumerate(settings.limits.networks):
        yield ("limits", "networks", index, "nodes"), network.nodes
    for index, override in enumerate(settings.limits.overrides):
        yield ("limits", "overrides", index, "nodes"), override.nodes


def _power_diagnostics(
    path: KeyPath, power: PowerSettings | None
) -> Iterator[Diagnostic]:
    if power is None:
        return
    from opendrs.power.redfish import require_credentials  # noqa: PLC0415 - slow

    drivers = dict(power.nodes)
    if power.default is not None:
        drivers["every node"] = power.default
    reported: set[object] = set()  # files shared by nodes are reported once
    for node, settings in drivers.items():
        if isinstance(settings, RedfishSettings):
            files = (
                settings.password_file,
                settings.password_env,
                settings.password_keyring,
                settings.ca,
            )
            if files not in reported:
                reported.add(files)
                yield from _catch_diagnostics(
                    partial(require_credentials, node, settings), path
                )
        elif isinstance(settings, PowerCommandSettings):
            yield from _program_warnings(path, settings, reported)


def _program_warnings(
    path: KeyPath, settings: PowerCommandSettings, reported: set[object]
) -> Iterator[Diagnostic]:
    for name in ("on_command", "off_command", "state_command"):
        command = getattr(settings, name)
        program = command[0] if command else "true"
        if program not in reported and "{" not in program and which(program) is None:
            reported.add(program)
            message = f"program not found: {repr_value(program)}"
            yield Diagnostic.warning(
                (*path, name), message, DiagnosticCode.UNUSABLE_FILE
            )


def _guest_warnings(settings: Settings) -> Iterator[Diagnostic]:
    """Yield a warning if rules name guests that only the platform can confirm."""
    platform_names = [
        name
        for name, connection in settings.platforms.items()
        if connection.settings is not None and not kind_of(connection).read_only
    ]
    guests = {guest for rule in settings.rules for guest in rule_guests(rule)}
    if platform_names and guests:
        yield Diagnostic.warning(
            ("rules",),
            f"existence of {format_count(len(guests), 'guest')} not checked; run "
            f"opendrs check {platform_names[0]} to ask the platform",
            DiagnosticCode.NOT_CHECKED,
        )


def _unknown_node(
    path: KeyPath, node: str, known: Iterable[str], where: str
) -> Diagnostic:
    return Diagnostic(
        path,
        f"unknown node {repr_value(node)} on {where}",
        code=DiagnosticCode.UNKNOWN_NAME,
        unknown_name=node,
        known_names=tuple(known),
    )


def _catch_diagnostics(
    check: Callable[[], object], path: KeyPath = ()
) -> Iterator[Diagnostic]:
    """Yield the errors that *check* raises as diagnostics."""
    try:
        check()
    except ConfigurationError as error:
        for each in error_diagnostics(error, path):
            field, colon, message = each.message.partition(": ")
            if not path and colon and _KEY_PATH.fullmatch(field):
                yield replace(each, path=tuple(field.split(".")), message=message)
            else:
                yield each
