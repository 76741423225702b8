"""The command `opendrs check`: all errors in a file or a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from opendrs.cli.cluster_tables import print_rule_problems, rule_problems_document
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json, printable
from opendrs.cli.file_permissions import (
    find_exposures,
    inline_passwords,
)
from opendrs.cli.online_check import (
    NAMES,
    PlatformCheck,
    check_online,
    checks_document,
    print_checks,
)
from opendrs.cli.options import (
    JSON,
    all_option,
    at_option,
    config_option,
    format_option,
    source_argument,
)
from opendrs.cli.sources import (
    as_of,
    file_source,
    load_mismatches,
    observe,
    open_source,
)
from opendrs.cli.validation import ValidationResult, validate_document
from opendrs.config import (
    MAX_DIAGNOSTICS,
    Diagnostic,
    DiagnosticCode,
    Severity,
    display_path,
    error_diagnostics,
    is_history,
    parse,
    path_text,
    read_history_snapshot,
    read_text,
)
from opendrs.config.plausibility import find_implausible, find_incomplete
from opendrs.config.settings import RESERVED_NAME
from opendrs.errors import ConfigurationError
from opendrs.model import (
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Rule,
    Snapshot,
    format_count,
    rule_guests,
)
from opendrs.rules import (
    Contradiction,
    Violation,
    compile_rules,
    count_strict,
    strict_rules,
    violations,
)
from opendrs.simulation.clock import SATURDAY_NOON

INVALID, BAD_INPUT = 1, 2
MAX_LISTED = 100  # errors, and the same number of warnings
MAX_VIOLATIONS = 3  # contradictions, and the same number of violations; --all: all


@click.command(name="check")
@source_argument
@at_option
@config_option
@all_option
@click.option(
    "--online",
    is_flag=True,
    help="Connect to the platforms of a configuration, and check their versions and "
    "the permissions of OpenDRS.",
)
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    at: datetime | None,
    config: Path | None,
    show_all: bool,
    online: bool,
    output_format: str,
) -> int:
    """Validate a file, or check a cluster for violated rules.

    SOURCE is a configuration, a file with rules only, a snapshot, a history, a
    scenario file (simulate), a sweep file, a drill file, a configured platform, or
    demo. Besides errors in the file, check reports rules that contradict each other
    and, in a cluster, violated rules. For a configuration, it also reads the files
    that are named there, and checks that the required libraries are installed. If
    the configuration lists the nodes of a platform, rules may name only these nodes.

    An impossible value, such as 59 of 16 cores in use, is an error. An implausible one,
    such as a node with 64 MiB, is a warning. Secret and database files that other users
    can read or change also cause warnings. Errors and warnings are printed on standard
    error; with --format json they are listed as diagnostics.

    \b
      opendrs check opendrs.toml
      opendrs check cluster.json --all           list all, not the first three
      opendrs check history.jsonl --at 2026-11-22T09:30
      opendrs check lab --config opendrs.toml
      opendrs check opendrs.toml --online        connect to the platforms

    Exit status: 0 = no errors, with or without warnings; 1 = a contradiction, a
    violated strict rule, or a failed check of a platform; 2 = an error in the file.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    try:
        result = _validate_source(source, config, at)
    except ConfigurationError as error:  # not readable or not parsable
        if output_format != JSON:
            raise
        result = ValidationResult(
            "a file",
            error_diagnostics(error),
        )
    problems: tuple[Sequence[Contradiction], Sequence[Violation]] = ((), ())
    if result.is_valid:
        snapshot = result.snapshot or hypothetical_cluster(result.rules)
        problems = compile_rules(snapshot).contradictions, violations(snapshot)
    contradictions, violated = problems
    strict = any(each.strict for each in violated)
    checks = _online_checks(source, result) if online else None
    if any(each.check.subject == NAMES for each in checks or ()):
        result = replace(result, diagnostics=tuple(_checked(result.diagnostics)))
    failed = sum(not each.check.ok for each in checks or ())
    status = INVALID if contradictions or strict or failed else 0
    if not result.is_valid:
        status = BAD_INPUT
    if output_format == JSON:
        diagnostics = [
            _diagnostic_document(source, each) for each in result.diagnostics
        ]
        report = {
            "checked": result.description,
            "valid": not status,
            "diagnostics": diagnostics,
        }
        if checks is not None:
            report["online"] = checks_document(checks)
        print_json({**report, **rule_problems_document(contradictions, violated)})
        return status
    _print_diagnostics(source, result.diagnostics)
    if result.is_valid:
        screen = console()
        limit = None if show_all else MAX_VIOLATIONS
        if checks is not None:
            print_checks(screen, checks)
        print_rule_problems(screen, contradictions, violated, limit)
        conclusion = _conclusion(result, contradictions, violated, failed)
        screen.print(printable(f"{source}: {_describe_result(result)}: {conclusion}"))
    return status


def _validate_source(
    source: str, config: Path | None, at: datetime | None
) -> ValidationResult:
    path = Path(source)
    if source != RESERVED_NAME and _is_file(path):
        if is_history(path):
            return _validate_history(path, at)
        if at is not None:
            observe(as_of(file_source(path), at))  # rejects a time before the snapshot
        name = display_path(path)
        document = parse(read_text(path), name, path.suffix)
        result = validate_document(document, name, path.parent)
        return replace(
            result, diagnostics=(*result.diagnostics, *_exposure_warnings(path, result))
        )
    settings = load_settings(config)
    snapshot = observe(open_source(source, settings, at=at))
    # The operator cannot correct a value that a platform measured.
    implausible_values = (*find_implausible(snapshot), *find_incomplete(snapshot))
    warnings = (replace(each, severity=Severity.WARNING) for each in implausible_values)
    unknown_loads = load_mismatches(settings.limits, [snapshot])
    diagnostics = (*warnings, *unknown_loads)
    return ValidationResult("a cluster", diagnostics, snapshot=snapshot)


def _online_checks(source: str, result: ValidationResult) -> list[PlatformCheck] | None:
    if result.settings is None:
        raise ConfigurationError(
            f"--online: {source} is not a configuration",
            code=DiagnosticCode.INCONSISTENT,
        )
    if not result.is_valid:
        return None
    settings = result.settings
    return list(check_online(settings.platforms, settings.rules, settings.limits))


def _checked(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield *diagnostics* but the hint that only the platform knows its guests."""
    for each in diagnostics:
        if (each.code, each.path) != (DiagnosticCode.NOT_CHECKED, ("rules",)):
            yield each


def _exposure_warnings(path: Path, result: ValidationResult) -> Iterator[Diagnostic]:
    """Yield a warning for each secret or database that other users can access."""
    if result.settings is None:
        return
    for each in find_exposures(path, result.settings):
        yield Diagnostic.warning(each.at, each.message, DiagnosticCode.SECRET_EXPOSED)
    for key_path, problem in inline_passwords(result.settings):
        yield Diagnostic.warning(key_path, problem, DiagnosticCode.SECRET_EXPOSED)


def _validate_history(path: Path, at: datetime | None) -> ValidationResult:
    entry = read_history_snapshot(path, at)
    result = validate_document(entry.document, entry.source, path.parent)
    diagnostics = result.diagnostics
    if entry.damage:
        diagnostics += (
            Diagnostic.warning((), entry.damage, DiagnosticCode.UNUSABLE_FILE),
        )
    time = result.snapshot and f", at {result.snapshot.taken_at:%Y-%m-%d %H:%M:%S} UTC"
    return replace(
        result, description=f"a history{time or ''}", diagnostics=diagnostics
    )


def _print_diagnostics(source: str, diagnostics: Sequence[Diagnostic]) -> None:
    """Print errors and then warnings on standard error, one per line."""
    name = display_path(Path(source))
    errors = [each for each in diagnostics if each.severity is Severity.ERROR]
    warnings = [each for each in diagnostics if each.severity is Severity.WARNING]
    for prefix, group in (("", errors), ("warning: ", warnings)):
        for each in group[:MAX_LISTED]:
            click.echo(printable(f"opendrs: {prefix}{name}: {each}"), err=True)
        if (more := len(group) - MAX_LISTED) > 0:
            qualifier = "at least " if len(group) > MAX_DIAGNOSTICS else ""
            click.echo(f"opendrs: {prefix}{name}: and {qualifier}{more} more", err=True)


def _diagnostic_document(source: str, diagnostic: Diagnostic) -> dict[str, str | None]:
    return {
        "severity": diagnostic.severity.value,
        "code": diagnostic.code.value,
        "file": source,
        "field": path_text((*diagnostic.path, *diagnostic.subpath)) or None,
        "message": diagnostic.text,
    }


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


def _conclusion(
    result: ValidationResult,
    contradictions: Sequence[Contradiction],
    violated: Sequence[Violation],
    failed_checks: int,
) -> str:
    """Return the number of contradictions, violated strict rules and failed checks."""
    problems = []
    if failed_checks:
        problems.append(f"{format_count(failed_checks, 'check')} failed")
    if contradictions:
        problems.append(format_count(len(contradictions), "contradiction"))
    count = count_strict(violated)
    if count.rules:
        total = 0 if result.snapshot is None else strict_rules(result.snapshot)
        rules = f"{count.rules} of {format_count(total, 'strict rule')} violated"
        problems.append(f"{rules}{count.suffix}")
    return ", ".join(problems) or "no errors"


def _describe_result(result: ValidationResult) -> str:
    if result.settings is None:
        return result.description
    platforms = format_count(len(result.settings.platforms), "platform")
    rules = format_count(len(result.settings.rules), "rule")
    return f"{result.description} with {platforms} and {rules}"


def hypothetical_cluster(rules: Sequence[Rule]) -> Snapshot:
    """Return a cluster for *rules*, with enough nodes for any placement.

    Rules that contradict each other in it do so in every cluster, so those that choose
    nodes by label or group are left out: these nodes are not known. All guests are
    stopped on one node, so that their placement violates no rule.
    """
    rules = [
        rule
        for rule in rules
        if not (isinstance(rule, NodeAffinity) and (rule.labels or rule.groups))
    ]
    guests = sorted({guest for rule in rules for guest in rule_guests(rule)})
    rule_nodes = {
        node for rule in rules if isinstance(rule, NodeAffinity) for node in rule.nodes
    }
    additional_nodes = {
        NodeId(f"further node {number}") for number in range(len(guests) + 1)
    }
    nodes = sorted(rule_nodes | additional_nodes)
    return Snapshot(
        taken_at=SATURDAY_NOON,
        nodes={name: Node(id=name, state=NodeState.ONLINE) for name in nodes},
        guests={name: _stopped_guest(name, nodes[0]) for name in guests},
        rules=tuple(rules),
    )


def _stopped_guest(name: GuestId, node: NodeId) -> Guest:
    return Guest(id=name, node=node, kind=GuestKind.VM, state=GuestState.STOPPED)
