"""The command `opendrs show`: nodes, guests, loads, rules and violations."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from opendrs.cli.cluster_tables import (
    cluster_title,
    guest_table,
    print_nodes,
    print_rule_problems,
    print_rule_table,
    rule_problems_document,
)
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json
from opendrs.cli.options import (
    JSON,
    all_option,
    at_option,
    config_option,
    format_option,
    source_argument,
)
from opendrs.cli.recorded_state import with_recorded_nodes
from opendrs.cli.sources import observe, open_source
from opendrs.config import snapshot_document
from opendrs.model import DOMAIN_ORIGIN, Snapshot
from opendrs.rules import compile_rules, violations

MAX_VIOLATIONS = 10  # contradictions and violations that are shown without --all
MAX_UNREQUESTED_GUESTS = 20  # guests that are shown without --guests


@click.command(name="show")
@source_argument
@click.option("--guests", is_flag=True, help="List all guests (default: at most 20).")
@all_option
@at_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    guests: bool,
    show_all: bool,
    at: datetime | None,
    config: Path | None,
    output_format: str,
) -> None:
    """Show nodes, guests, loads, rules and violations.

    A question mark means that a value is unknown. The capacity of a node that is
    powered off is the last recorded one. Nodes that operators drain are in
    maintenance. Guests are listed if there are at most 20,
    or with --guests. Of more than 20 nodes the ten most loaded are shown, of more
    than 20 rules the number of each kind, and of the violations the first ten.
    --all shows all of them.

    If the output is a pipe or a file, each row is one line, with a tab between
    columns.

    \b
      opendrs show cluster.json                a snapshot file
      opendrs show lab --guests                a platform of the configuration
      opendrs show lab --all | cut -f 1,3,5    all nodes: name, cpu, memory
      opendrs show history.jsonl --at 2026-11-22T09:30
      opendrs show demo --format json          everything, for a program
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    opened = open_source(source, settings, at=at)
    snapshot = with_recorded_nodes(observe(opened), opened, settings)
    if output_format == JSON:
        problems = rule_problems_document(
            compile_rules(snapshot).contradictions, violations(snapshot)
        )
        print_json({"snapshot": snapshot_document(snapshot), **problems})
    else:
        _print_cluster(snapshot, opened.platform.name, guests=guests, show_all=show_all)


def _print_cluster(
    snapshot: Snapshot, name: str, *, guests: bool, show_all: bool
) -> None:
    screen = console()
    screen.print(cluster_title(snapshot, name))
    screen.print()
    print_nodes(screen, snapshot, show_all=show_all)
    if guests or 0 < len(snapshot.guests) <= MAX_UNREQUESTED_GUESTS:
        screen.print()
        screen.print(guest_table(snapshot))
    rules = [rule for rule in snapshot.rules if rule.origin != DOMAIN_ORIGIN]
    if rules:
        screen.print()
        print_rule_table(screen, rules, show_all=show_all)
    contradictions = compile_rules(snapshot).contradictions
    violated = violations(snapshot)
    if contradictions or violated:
        screen.print()
        limit = None if show_all else MAX_VIOLATIONS
        print_rule_problems(screen, contradictions, violated, limit)
