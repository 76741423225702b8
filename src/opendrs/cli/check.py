"""opendrs check: everything wrong in a file, at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from opendrs.cli.cluster import faults_document, print_faults
from opendrs.cli.examination import Examined, examined
from opendrs.cli.figures import counted
from opendrs.cli.options import (
    JSON,
    all_option,
    at_option,
    config_option,
    format_option,
    source_argument,
)
from opendrs.cli.screen import console, print_json, visible
from opendrs.cli.sources import as_of, file_source, load_settings, observe, open_source
from opendrs.controller.exposure import INLINE, exposures, inline_passwords
from opendrs.controller.plausibility import implausible, incomplete
from opendrs.controller.settings import RESERVED
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
)
from opendrs.platforms.file import (
    MOST_FOUND,
    Complaint,
    Severity,
    dotted,
    is_history,
    parse,
    read_entry,
    read_text,
    shown_path,
)
from opendrs.rules import Contradiction, Violation, compile_rules, violations
from opendrs.sim.clock import SATURDAY_NOON

NOT_IN_ORDER, BAD_INPUT = 1, 2
MOST_SHOWN = 100  # errors, and as many warnings
MOST_FAULTS = 3  # contradictions, and as many broken rules; more with --all


@click.command(name="check")
@source_argument
@at_option
@config_option
@all_option
@format_option
def command(
    *,
    source: str,
    at: datetime | None,
    config: Path | None,
    everything: bool,
    form: str,
) -> int:
    """Find everything wrong in a file, at once.

    SOURCE is a configuration, a file of rules alone, a snapshot, a history, a
    scenario, a sweep, a drill, or what else can be observed. Besides mistakes in
    the file, rules that contradict one another are found and, in a cluster, rules
    that are broken. Of a configuration, the files it names are read as well,
    libraries that it needs are looked for, and nodes in rules must be there.

    A number that cannot be is an error, such as 59 of 16 cores in use; one that
    is improbable, such as a node with 64 MiB, is a warning. Both are written to
    standard error; with --format json they are listed as diagnostics. So are files
    with a secret, and records, that other users can read or change.

    \b
      opendrs check opendrs.toml
      opendrs check cluster.json --all           every broken rule, not three
      opendrs check history.jsonl --at 2026-11-22T09:30
      opendrs check lab --config opendrs.toml

    Exit status: 0 in order, also with warnings; 1 a contradiction or a broken
    strict rule; 2 a mistake in the file.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    try:
        found = _examined(source, config, at)
    except ConfigurationError as error:  # it cannot even be read
        if form != JSON:
            raise
        found = Examined(
            "a file", tuple(Complaint((), each) for each in error.complaints)
        )
    faults: tuple[Sequence[Contradiction], Sequence[Violation]] = ((), ())
    if found.usable:
        snapshot = found.snapshot or imagined(found.rules)
        faults = compile_rules(snapshot).contradictions, violations(snapshot)
    contradictions, broken = faults
    strict = any(each.strict for each in broken)
    status = NOT_IN_ORDER if contradictions or strict else 0
    if not found.usable:
        status = BAD_INPUT
    if form == JSON:
        listed = [_diagnostic(source, each) for each in found.complaints]
        report = {"what": found.what, "in_order": not status, "diagnostics": listed}
        print_json({**report, **faults_document(contradictions, broken)})
        return status
    _print_complaints(source, found.complaints)
    if found.usable:
        screen = console()
        most = None if everything else MOST_FAULTS
        print_faults(screen, contradictions, broken, most)
        verdict = _verdict(found, contradictions, broken)
        screen.print(visible(f"{source}: {_described(found)}{verdict}."))
    return status


def _examined(source: str, config: Path | None, at: datetime | None) -> Examined:
    path = Path(source)
    if source != RESERVED and _is_file(path):
        if is_history(path):
            return _examined_history(path, at)
        if at is not None:
            observe(as_of(file_source(path), at))  # refuses a time before it
        name = shown_path(path)
        document = parse(read_text(path), name, path.suffix)
        found = examined(document, name, path.parent)
        return replace(found, complaints=(*found.complaints, *_exposed(path, found)))
    snapshot = observe(open_source(source, load_settings(config), at=at))
    # What a platform measured is as it is: nobody can write it otherwise.
    doubts = (*implausible(snapshot), *incomplete(snapshot))
    odd = (replace(each, severity=Severity.WARNING) for each in doubts)
    return Examined("a cluster", tuple(odd), snapshot=snapshot)


def _exposed(path: Path, found: Examined) -> Iterator[Complaint]:
    """Yield what other users can read or change, and must not."""
    if found.settings is None:
        return
    for each in exposures(path, found.settings):
        yield Complaint(each.at, each.message, severity=Severity.WARNING)
    for at in inline_passwords(found.settings):
        yield Complaint(at, INLINE, severity=Severity.WARNING)


def _examined_history(path: Path, at: datetime | None) -> Examined:
    entry = read_entry(path, at)
    found = examined(entry.document, entry.source, path.parent)
    complaints = found.complaints
    if entry.damage:
        complaints += (Complaint((), entry.damage, severity=Severity.WARNING),)
    time = found.snapshot and f", at {found.snapshot.taken_at:%Y-%m-%d %H:%M:%S} UTC"
    return replace(found, what=f"a history{time or ''}", complaints=complaints)


def _print_complaints(source: str, complaints: Sequence[Complaint]) -> None:
    """Print errors, and then warnings, each on a line of standard error."""
    name = shown_path(Path(source))
    errors = [each for each in complaints if each.severity is Severity.ERROR]
    warnings = [each for each in complaints if each.severity is Severity.WARNING]
    for begin, several in (("", errors), ("warning: ", warnings)):
        for each in several[:MOST_SHOWN]:
            click.echo(visible(f"opendrs: {begin}{name}: {each}"), err=True)
        if (more := len(several) - MOST_SHOWN) > 0:
            least = "at least " if len(several) > MOST_FOUND else ""
            click.echo(f"opendrs: {begin}{name}: and {least}{more} more", err=True)


def _diagnostic(source: str, complaint: Complaint) -> dict[str, str | None]:
    return {
        "severity": complaint.severity.value,
        "file": source,
        "field": dotted((*complaint.at, *complaint.within)) or None,
        "message": complaint.text,
    }


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


def _verdict(
    found: Examined,
    contradictions: Sequence[Contradiction],
    broken: Sequence[Violation],
) -> str:
    """Return how many faults there are, to end the description with."""
    faults = []
    if contradictions:
        faults.append(counted(len(contradictions), "contradiction"))
    strict = len({id(each.rule) for each in broken if each.strict})
    if strict:
        rules = () if found.snapshot is None else found.snapshot.rules
        total = sum(getattr(each, "strict", True) for each in rules)
        verb = "is" if strict == 1 else "are"
        faults.append(f"{strict} of {counted(total, 'strict rule')} {verb} broken")
    return f"; {', '.join(faults)}" if faults else ", in order"


def _described(found: Examined) -> str:
    if found.settings is None:
        return found.what
    platforms = counted(len(found.settings.platforms), "platform")
    rules = counted(len(found.settings.rules), "rule")
    return f"{found.what} with {platforms} and {rules}"


def imagined(rules: Sequence[Rule]) -> Snapshot:
    """Return a cluster for rules without one, in which there is room for all.

    What contradicts here does so in every cluster. All guests are stopped on one
    node, so that nothing follows from where they are, and nothing is broken.
    """
    guests = sorted({guest for rule in rules for guest in _guests(rule)})
    named = {
        node for rule in rules if isinstance(rule, NodeAffinity) for node in rule.nodes
    }
    further = {NodeId(f"further node {number}") for number in range(len(guests) + 1)}
    nodes = sorted(named | further)
    return Snapshot(
        taken_at=SATURDAY_NOON,
        nodes={name: Node(id=name, state=NodeState.ONLINE) for name in nodes},
        guests={name: _stopped(name, nodes[0]) for name in guests},
        rules=tuple(rules),
    )


def _stopped(name: GuestId, node: NodeId) -> Guest:
    return Guest(id=name, node=node, kind=GuestKind.VM, state=GuestState.STOPPED)


def _guests(rule: Rule) -> frozenset[GuestId]:
    return getattr(rule, "guests", frozenset())
