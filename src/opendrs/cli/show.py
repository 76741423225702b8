"""opendrs show: what there is, how loaded, and what is broken."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from opendrs.cli.cluster import (
    faults_document,
    guest_table,
    print_faults,
    print_nodes,
    print_rule_table,
    title,
)
from opendrs.cli.options import (
    JSON,
    all_option,
    at_option,
    config_option,
    format_option,
    source_argument,
)
from opendrs.cli.screen import console, print_json
from opendrs.cli.sources import load_settings, observe, open_source, with_sleepers
from opendrs.model import Snapshot
from opendrs.platforms.file import document
from opendrs.rules import compile_rules, violations

MOST_FAULTS = 10  # contradictions and broken rules
FEW = 20  # guests that are shown without being asked for


@click.command(name="show")
@source_argument
@click.option("--guests", is_flag=True, help="List the guests, however many.")
@all_option
@at_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    guests: bool,
    everything: bool,
    at: datetime | None,
    config: Path | None,
    form: str,
) -> None:
    """Show nodes, guests, loads, rules, and what is broken.

    A question mark stands where nothing was measured. Of a node that sleeps, what
    it has is remembered. The guests are listed when there are few of them, or
    with --guests. Of more than 20 nodes the ten most loaded are shown, of many rules
    how many there are of each kind, of many broken ones the first ten; --all shows
    all of them.

    Through a pipe or into a file each row is one line, with a tab between columns.

    \b
      opendrs show cluster.json            a snapshot in a file
      opendrs show lab --guests            a platform of the configuration
      opendrs show lab --all | sort -t'\t' -k3   every node
      opendrs show history.jsonl --at 2026-11-22T09:30
      opendrs show demo --format json      everything, for a program
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = load_settings(config)
    opened = open_source(source, settings, at=at)
    snapshot = with_sleepers(observe(opened), opened, settings)
    if form == JSON:
        faults = faults_document(
            compile_rules(snapshot).contradictions, violations(snapshot)
        )
        print_json({"snapshot": document(snapshot), **faults})
    else:
        _print(snapshot, opened.platform.name, guests=guests, everything=everything)


def _print(snapshot: Snapshot, name: str, *, guests: bool, everything: bool) -> None:
    screen = console()
    screen.print(title(snapshot, name))
    screen.print()
    print_nodes(screen, snapshot, everything=everything)
    if guests or 0 < len(snapshot.guests) <= FEW:
        screen.print()
        screen.print(guest_table(snapshot))
    if snapshot.rules:
        screen.print()
        print_rule_table(screen, snapshot.rules, everything=everything)
    contradictions, broken = (
        compile_rules(snapshot).contradictions,
        violations(snapshot),
    )
    if contradictions or broken:
        screen.print()
        most = None if everything else MOST_FAULTS
        print_faults(screen, contradictions, broken, most)
