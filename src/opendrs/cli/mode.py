"""The commands `opendrs mode`, `pause` and `resume`: what the controller may start."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from opendrs.cli.configuration import load_settings, load_store_settings
from opendrs.cli.console import console, print_json, printable
from opendrs.cli.options import (
    JSON,
    QuantityRange,
    TimeParameter,
    config_option,
    format_option,
    reject_nan,
)
from opendrs.cli.platform_store import (
    cli_actor,
    open_operator_store,
    open_to_read,
)
from opendrs.cli.schedule_status import schedule_status
from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.config.settings import Settings
from opendrs.controller import SystemClock, operator_commands
from opendrs.controller.modes import (
    BREAKER_KEY,
    MODE_TEXTS,
    OPERATOR_ENTRIES,
    EffectiveMode,
    Entries,
    Pause,
    current_pause,
    mode_exceptions,
    overall_mode,
    platform_mode,
)
from opendrs.controller.operator_commands import MAX_PAUSE, pause_end
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import TIME, format_timestamp

_MODES = [mode.value for mode in Mode]
platform_argument = click.argument("platform", metavar="PLATFORM")


@click.command(name="mode")
@platform_argument
@click.argument("mode", type=click.Choice(_MODES), required=False)
@config_option
@format_option
def command(
    *, platform: str, mode: str | None, config: Path | None, output_format: str
) -> int:
    """Show or set the mode of the controller of PLATFORM.

    \b
      observe      records its decisions, executes no plans
      advise       proposes plans; opendrs approve lets it execute one
      automatic    executes its plans

    The mode that is set here replaces [controller] mode of the configuration until it
    is set again, also after a restart. A running controller reads it before each step
    and in each cycle: with observe, it starts no further step.

    \b
      opendrs mode lab                 the mode that applies now, and why
      opendrs mode lab advise

    Exit status: 0 = done; 2 = invalid input; 3 = the database cannot be used.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings, clock = load_settings(config), SystemClock()
    if mode is not None:
        with open_operator_store(platform, settings) as store:
            operator_commands.set_mode(store, clock, cli_actor(), Mode(mode))
    _show(platform, settings, output_format)
    return 0


@click.command(name="pause")
@platform_argument
@click.option(
    "--for",
    "duration",
    type=QuantityRange(TIME, 0, MAX_PAUSE, exclusive_minimum=True),
    callback=reject_nan,
    metavar="TIME",
    help="Duration in seconds or with a unit, such as 2h or '30 min'.",
)
@click.option(
    "--until",
    type=TimeParameter(),
    metavar="TIME",
    help="End, such as 2026-11-24T06:00+01:00; UTC without a time zone.",
)
@click.option(
    "--because", required=True, metavar="TEXT", help="Why, for the log and the audit."
)
@config_option
@format_option
def pause(  # noqa: PLR0913 - one parameter for each option
    *,
    platform: str,
    duration: float | None,
    until: datetime | None,
    because: str,
    config: Path | None,
    output_format: str,
) -> int:
    """Pause the controller of PLATFORM: no steps start for a time.

    The controller continues to observe and decide. Steps that run finish; the remaining
    steps of their plan are skipped, and the plan is cancelled. Approved plans wait; one
    that expires during the pause is not executed. The pause ends by itself, or by
    opendrs resume.

    \b
      opendrs pause lab --for 2h --because "storage upgrade"
      opendrs pause lab --until 2026-11-24T06:00+01:00 --because "night shift"

    Exit status: 0 = done; 2 = invalid input; 3 = the database cannot be used.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings, clock = load_store_settings(config, platform), SystemClock()
    end = _end(clock.now(), duration, until)
    with open_operator_store(platform, settings) as store:
        operator_commands.pause(store, clock, cli_actor(), end, because)
    _show(platform, settings, output_format)
    return 0


@click.command(name="resume")
@platform_argument
@config_option
@format_option
def resume(*, platform: str, config: Path | None, output_format: str) -> int:
    """End the pause of the controller of PLATFORM.

    Without a pause, nothing changes.

    \b
      opendrs resume lab

    Exit status: 0 = done; 2 = invalid input; 3 = the database cannot be used.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_store_settings(config, platform)
    with open_operator_store(platform, settings) as store:
        operator_commands.resume(store, SystemClock(), cli_actor())
    _show(platform, settings, output_format)
    return 0


def _end(now: datetime, duration: float | None, until: datetime | None) -> datetime:
    """Return the end of a pause.

    Raises:
        ConfigurationError: Neither or both are given, or the end is not in the future.
    """
    if (duration is None) == (until is None):
        raise ConfigurationError(
            "pause: expected either --for or --until", code=DiagnosticCode.INCONSISTENT
        )
    end = pause_end(now, duration, until)
    if end is None:
        given = "" if until is None else format_timestamp(until)
        raise ConfigurationError(
            f"--until: expected a time in the next {MAX_PAUSE // 86_400} days, got "
            f"{given}",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    return end


def _show(platform: str, settings: Settings, output_format: str) -> None:
    with open_to_read(platform, settings) as store:
        entries = store.load_all(OPERATOR_ENTRIES)
    now, controller = SystemClock().now(), settings.controller
    mode = overall_mode(settings, entries, now)
    schedule = schedule_status(settings, {}, entries, now)
    paused = current_pause(entries, now)
    if output_format == JSON:
        document = _document(platform, settings, entries, mode, paused)
        print_json(
            {**document, "schedule": [entry.mode_document for entry in schedule]}
        )
        return
    screen = console()
    screen.print(f"{platform}: mode {mode.mode} ({mode.detail})")
    screen.print(f"the controller {MODE_TEXTS[mode.mode]}")
    if then := following_mode_text(platform, controller, entries, now):
        screen.print(printable(then))
    for exception in mode_exceptions(controller, mode):
        screen.print(exception)
    for entry in schedule:
        screen.print(printable(entry.mode_line))


def following_mode_text(
    platform: str, settings: ControllerSettings, entries: Entries, now: datetime
) -> str:
    """Return the mode after a pause and the circuit breaker; empty without these."""
    ends = ["the pause"] if current_pause(entries, now) is not None else []
    ends += [f"opendrs breaker {platform} --reset"] if BREAKER_KEY in entries else []
    if not ends:
        return ""
    after = platform_mode(settings, entries)
    return f"after {' and '.join(ends)}: mode {after.mode} ({after.detail})"


def _document(
    platform: str,
    settings: Settings,
    entries: Entries,
    mode: EffectiveMode,
    paused: Pause | None,
) -> dict[str, object]:
    return {
        "platform": platform,
        "mode": mode.mode,
        "source": mode.source,
        "detail": mode.detail,
        "configured": settings.controller.mode,
        "repair": settings.controller.repair,
        "automatic_tags": settings.controller.automatic_tags,
        "automatic_guests": settings.controller.automatic_guests,
        "advise_tags": settings.controller.advise_tags,
        "advise_guests": settings.controller.advise_guests,
        "breaker_open": BREAKER_KEY in entries,
        "pause": None
        if paused is None
        else {
            "until": format_timestamp(paused.until),
            "because": paused.because,
            "user": paused.user,
        },
    }
