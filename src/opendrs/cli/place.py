"""The command `opendrs place`: nodes for guests that are to start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json
from opendrs.cli.options import (
    JSON,
    IntegerRange,
    QuantityRange,
    all_option,
    at_option,
    config_option,
    cores_option,
    format_option,
    memory_option,
    reject_nan,
    require_guest,
    source_argument,
)
from opendrs.cli.place_tables import placement_document, print_placement
from opendrs.cli.platform_store import (
    load_entry,
    open_operator_store,
    operator_action,
)
from opendrs.cli.platforms import ClusterSource
from opendrs.cli.recorded_state import with_occupied_resources
from opendrs.cli.sources import observe, open_source
from opendrs.config.settings import Settings
from opendrs.controller import SystemClock
from opendrs.controller.reservations import KEY_PREFIX, Reservation, reservations_in
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import repr_value
from opendrs.model import (
    TIME,
    Guest,
    Resources,
    Snapshot,
    TagExclusion,
)
from opendrs.placement import (
    MAX_COUNT,
    StartPlacement,
    StartRequest,
    start_placement,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DEFAULT_DURATION = 3600.0  # seconds of a reservation
NO_NODE = 1  # exit status: some guests have no feasible node


def _check_name(
    context: click.Context, option: click.Parameter, value: str | None
) -> str | None:
    if value is not None and not _NAME.fullmatch(value):
        raise click.BadParameter(
            "expected 1 to 64 letters, digits, and . _ -, the first of them a letter "
            f"or digit, got {value!r}",
            context,
            option,
        )
    return value


@click.command(name="place")
@source_argument
@cores_option("--cpu", "Virtual cores of the guest.")
@memory_option("--memory", "Memory of the guest, such as '16 GiB'.")
@click.option(
    "--like",
    metavar="GUEST",
    help="Size, hardware requirements, further loads and rules of GUEST; --cpu and "
    "--memory override its size.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Tag of the guest; may be repeated. Rules that Proxmox VE derives from it "
    "apply.",
)
@click.option(
    "--count",
    type=IntegerRange(1, MAX_COUNT),
    default=1,
    metavar="N",
    help="Number of guests that start one after the other (default 1).",
)
@click.option(
    "--reserve",
    callback=_check_name,
    metavar="NAME",
    help="Keep the resources free for the guest NAME, or NAME-1 to NAME-N: they count "
    "in later plans until the guest exists or the reservation expires.",
)
@click.option(
    "--for",
    "duration",
    type=QuantityRange(TIME, 1, 30 * 86400),
    callback=reject_nan,
    metavar="TIME",
    help="Duration of the reservation, such as '2 h' (default 1 h, at most 30 d).",
)
@click.option(
    "--release",
    callback=_check_name,
    metavar="NAME",
    help="End the reservation NAME, and do nothing else.",
)
@all_option
@at_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    cpu: float | None,
    memory: float | None,
    like: str | None,
    tags: tuple[str, ...],
    count: int,
    reserve: str | None,
    duration: float | None,
    release: str | None,
    show_all: bool,
    at: datetime | None,
    config: Path | None,
    output_format: str,
) -> int:
    """Rank the nodes for the start of a guest. Starts nothing.

    With --reserve, the resources on the best node are kept free in later plans, also
    those of a running controller. SOURCE must then be a platform of the configuration.

    The guest is assumed to use all its cores and memory. Strict rules, the state and
    the hardware of the nodes, and the limits of memory decide which nodes are feasible.
    So do the thresholds of further loads, and the failures that [limits] wants
    tolerated: no fewer may be after the start. A node that is not measured is
    infeasible, never empty. First are the nodes that node-affinity rules prefer, then
    those that violate the fewest soft rules, then those with the best score for the
    load after the start (TOPSIS, as in Proxmox VE).

    With --count, each guest starts on the first node of the ranking, with those
    before it in place. The ranking is that of the first guest.

    \b
      opendrs place lab --cpu 4 --memory '16 GiB'
      opendrs place lab --like web3             a guest like web3, with its rules
      opendrs place lab --like web3 --count 10
      opendrs place lab --like web3 --reserve web4 --for '2 h'
      opendrs place lab --release web4
      opendrs place cluster.json --cpu 2 --memory '4 GiB' --all

    Exit status: 0 = all guests have a node; 1 = some have none; 2 = invalid input.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    _check_reservation_options(reserve, duration, release)
    if release is not None:
        return _release(source, release, settings, output_format)
    cluster = open_source(source, settings, at=at)
    snapshot = with_occupied_resources(observe(cluster), cluster, settings)
    request = read_start_request(
        snapshot, cpu=cpu, memory=memory, like=like, tags=tags, count=count
    )
    found = start_placement(snapshot, request, settings.limits)
    notes = placement_notes(snapshot, request)
    if reserve is not None and None in found.nodes:
        notes += ("nothing is reserved: some guests have no node",)
    elif reserve is not None:
        length = timedelta(seconds=duration or DEFAULT_DURATION)
        until = cluster.clock.now() + length
        reservation = _reservation(reserve, request, found, until)
        _save(cluster, reservation, snapshot, settings)
        notes += (f"reserved: {reserve}, until {reservation.until:%Y-%m-%d %H:%M %Z}",)
    if output_format == JSON:
        print_json(placement_document(request, found, notes))
    else:
        print_placement(console(), request, found, notes, show_all=show_all)
    return NO_NODE if None in found.nodes else 0


def _check_reservation_options(
    reserve: str | None, duration: float | None, release: str | None
) -> None:
    if duration is not None and reserve is None:
        raise _inconsistent("--for: requires --reserve")
    if release is not None and reserve is not None:
        raise _inconsistent("--release: not allowed with --reserve")


def _inconsistent(message: str) -> ConfigurationError:
    return ConfigurationError(message, code=DiagnosticCode.INCONSISTENT)


def _reservation(
    name: str, request: StartRequest, found: StartPlacement, until: datetime
) -> Reservation:
    """Return the reservation of the nodes of all guests of *request*."""
    nodes = tuple(node for node in found.nodes if node is not None)
    return Reservation(name=name, limit=request.limit, nodes=nodes, until=until)


def _save(
    cluster: ClusterSource,
    reservation: Reservation,
    snapshot: Snapshot,
    settings: Settings,
) -> None:
    """Save *reservation* in the store of the platform.

    Raises:
        ConfigurationError: *cluster* has no store, or a guest has the name already.
        StoreError: The store cannot be written.
    """
    if not cluster.is_persistent:
        raise _inconsistent(
            f"--reserve: {cluster.platform.name} has no store; expected a platform of "
            "the configuration"
        )
    for guest in reservation.guests:
        if guest.id in snapshot.guests:
            raise _inconsistent(
                f"--reserve: guest {guest.id} exists, or is reserved already"
            )
    action = operator_action(
        cluster.clock,
        "place --reserve",
        {"name": reservation.name, **reservation.document()},
    )
    with open_operator_store(cluster.platform.name, settings) as store:
        expired = {
            each.key: None
            for each in reservations_in(store.entries(KEY_PREFIX))
            if each.until <= action.at
        }
        store.change(action, {**expired, reservation.key: reservation.document()})


def _release(platform: str, name: str, settings: Settings, output_format: str) -> int:
    """End the reservation *name*; return the exit status.

    Raises:
        ConfigurationError: There is no such platform or reservation.
        StoreError: The store cannot be read or written.
    """
    key = f"{KEY_PREFIX}{name}"
    if load_entry(platform, settings, key) is None:
        raise ConfigurationError(
            f"--release: unknown reservation {repr_value(name)}",
            code=DiagnosticCode.UNKNOWN_NAME,
        )
    action = operator_action(SystemClock(), "place --release", {"name": name})
    with open_operator_store(platform, settings) as store:
        store.change(action, {key: None})
    if output_format == JSON:
        print_json({"released": name})
    else:
        console().print(f"released: {name}")
    return 0


def read_start_request(  # noqa: PLR0913 - one for each option
    snapshot: Snapshot,
    *,
    cpu: float | None,
    memory: float | None,
    like: str | None,
    tags: Sequence[str],
    count: int,
) -> StartRequest:
    """Return the request for the guests that the options describe.

    Args:
        snapshot: The cluster.
        cpu: Value of `--cpu`; None if not given.
        memory: Value of `--memory` in bytes; None if not given.
        like: Value of `--like`; None if not given.
        tags: Values of `--tag`.
        count: Value of `--count`.

    Raises:
        UnknownGuestError: The guest to resemble does not exist.
        ConfigurationError: An amount is neither given nor known of that guest.
    """
    model = None if like is None else require_guest("--like", like, snapshot)
    return _request(_size(cpu, memory, model), count, tags, model)


def _request(
    limit: Resources, count: int, tags: Sequence[str], like: Guest | None
) -> StartRequest:
    """Return the request for guests of size *limit*, with the tags of *like*, too."""
    if like is None:
        return StartRequest(limit=limit, count=count, tags=frozenset(tags))
    return StartRequest(
        limit=limit, count=count, tags=like.tags.union(tags), like=like.id
    )


def _size(cpu: float | None, memory: float | None, like: Guest | None) -> Resources:
    """Return the size of the new guests.

    Raises:
        ConfigurationError: An amount is neither given nor known of the guest to
            resemble.
    """
    limit = None if like is None else like.limit
    cpu = cpu or (limit.cpu if limit is not None else None)
    memory = memory or (limit.memory if limit is not None else None)
    for option, value in (("--cpu", cpu), ("--memory", memory)):
        if not value:
            detail = (
                "required, or --like GUEST"
                if like is None
                else f"required: {like.id} has no such limit"
            )
            raise ConfigurationError(
                f"{option}: {detail}", code=DiagnosticCode.MISSING_KEY
            )
    return Resources(float(cpu or 0), int(memory or 0))


def placement_notes(snapshot: Snapshot, request: StartRequest) -> tuple[str, ...]:
    """Return what the operator should know about the new guests."""
    return tuple(
        f"not migrated after its start: rule: {rule}"
        for rule in snapshot.rules
        if isinstance(rule, TagExclusion) and rule.tags & request.tags
    )
