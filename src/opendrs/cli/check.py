"""opendrs check: everything wrong in a file, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from opendrs.cli.cluster import faults_document, print_faults
from opendrs.cli.figures import counted
from opendrs.cli.options import JSON, config_option, format_option, source_argument
from opendrs.cli.screen import console, print_json, visible
from opendrs.cli.sources import load_settings, observe, open_source
from opendrs.controller.settings import RESERVED, Settings, settings_from
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
from opendrs.platforms.file import parse, read_text, shown_path, snapshot_from
from opendrs.rules import compile_rules, violations
from opendrs.sim.clock import SATURDAY_NOON

NOT_IN_ORDER = 1


@click.command(name="check")
@source_argument
@config_option
@format_option
def command(*, source: str, config: Path | None, form: str) -> int:
    """Find everything wrong in a file, at once.

    SOURCE is a configuration, a file of rules alone, a snapshot, or what else
    can be observed. Besides mistakes in the file, rules that contradict one
    another are found and, in a cluster, rules that are broken. A controller's
    certificate, key and tokens are read as well.

    \b
      opendrs check opendrs.toml
      opendrs check cluster.json
      opendrs check lab --config opendrs.toml

    Exit status: 0 in order, 1 a contradiction or a broken strict rule, 2 a
    mistake in the file.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    what, snapshot = _read(source, config)
    contradictions, broken = (
        compile_rules(snapshot).contradictions,
        violations(snapshot),
    )
    in_order = not contradictions and not any(found.strict for found in broken)
    if form == JSON:
        faults = faults_document(contradictions, broken)
        print_json({"what": what, "in_order": in_order, **faults})
    else:
        screen = console()
        print_faults(screen, contradictions, broken)
        verdict = "in order" if in_order else "not in order"
        screen.print(visible(f"{source}: {what}, {verdict}."))
    return 0 if in_order else NOT_IN_ORDER


def _read(source: str, config: Path | None) -> tuple[str, Snapshot]:
    """Return what *source* is, and a cluster in which its rules can be judged."""
    path = Path(source)
    if source != RESERVED and _is_file(path):
        document = parse(read_text(path), shown_path(path), path.suffix)
        if not _is_snapshot(document):
            settings = settings_from(document, shown_path(path), path.parent)
            _require_credentials(settings)
            return _described(settings), imagined(settings.rules)
        return "a snapshot", snapshot_from(document, shown_path(path))
    settings = load_settings(config)
    return "a cluster", observe(open_source(source, settings))


def _require_credentials(settings: Settings) -> None:
    if settings.requests is not None:
        # Only here: to speak TLS takes a while to import.
        from opendrs.controller.requests.credentials import (  # noqa: PLC0415
            require_credentials,
        )

        require_credentials(settings.requests)


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


def _is_snapshot(document: object) -> bool:
    signs = ("format", "taken_at", "nodes", "guests")
    return not isinstance(document, Mapping) or any(key in document for key in signs)


def _described(settings: Settings) -> str:
    platforms = counted(len(settings.platforms), "platform")
    rules = counted(len(settings.rules), "rule")
    return f"a configuration with {platforms} and {rules}"


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
