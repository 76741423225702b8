"""The command `opendrs report`: what was done, and what a policy would have done."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opendrs.cli.backtest_record import load_record
from opendrs.cli.backtest_report import BacktestReport
from opendrs.cli.backtest_run import PolicyChoice, row_progress
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import TerminalConsole, console, print_json
from opendrs.cli.options import (
    JSON,
    config_option,
    every_option,
    format_option,
    since_option,
)
from opendrs.cli.platform_store import open_to_read
from opendrs.cli.report_details import ReportDetails, read_details
from opendrs.cli.report_text import (
    ActivityReport,
    print_report,
    read_activity,
    summary,
)
from opendrs.config.settings import Settings
from opendrs.controller import SystemClock
from opendrs.controller.events import LogEventCode
from opendrs.simulation.atomic_output import AtomicFiles, check_outputs
from opendrs.simulation.backtest import BacktestRow, LoadRecord, run_backtest
from opendrs.store import DatabasePlanStore, DatabaseStore, History

if TYPE_CHECKING:
    from opendrs.monitoring.notification_senders import Sender

DAY = 86_400.0
SEED = 1  # of dirty rates that are not recorded
PAGE_SUFFIXES = (".html", ".htm")
TEXT_WIDTH = 100  # columns of the text that is sent


@click.command(name="report")
@click.argument("platform", metavar="PLATFORM")
@since_option(
    "How far back from the newest snapshot the report begins (default: '7 d').",
    default=7 * DAY,
)
@every_option(
    "Simulate decisions at least this far apart, such as '1 h', to save time "
    "(default: in each recorded cycle)."
)
@click.option(
    "--policy",
    metavar="NAME",
    help="The policy (default: that of the configuration, or its schedule).",
)
@click.option(
    "--send",
    is_flag=True,
    help="Also send the report by each table [[notifications]] whose events include "
    '"report".',
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the report to FILE, a web page that opens without network, with "
    "plots, the moves, what was not done and why, and the energy.",
)
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    platform: str,
    since: float,
    every: float,
    policy: str | None,
    send: bool,
    html: Path | None,
    config: Path | None,
    output_format: str,
) -> None:
    """Compare what happened with what one policy or the schedule would have done.

    The first part counts the recorded decisions, plans and executed steps of the
    controller. The second part simulates the policy, or the policies of [[schedule]]
    at their times, on the recorded load, as opendrs backtest does, and compares the
    result with the recorded loads. If the controller runs in mode observe, the second
    part shows what it would have done in mode automatic. Nothing is changed.

    \b
      opendrs report lab
      opendrs report lab --since '30 d' --every '1 h'
      opendrs report lab --policy optimize
      opendrs report lab --since '30 d' --html report.html
      opendrs report lab --send                  for a weekly timer

    Exit status: 0 = done; 2 = invalid input; 3 = the database failed, or the report was
    not sent.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    check_outputs([(html, PAGE_SUFFIXES)] if html else [], [])
    choice = _choice(policy, settings, every)
    choice.backtest_settings()  # errors before the record is read
    senders = _senders(settings) if send else []
    record = load_record(platform, settings, since)
    with open_to_read(platform, settings) as store:
        activity = read_activity(store, record.times[0])
        details = None if html is None else _details(store, record)
    rows = _simulated_rows(choice, record)
    report = ActivityReport(
        backtest=BacktestReport(
            source=platform, record=record, every=every, seed=SEED, rows=rows
        ),
        activity=activity,
    )
    if html is not None and details is not None:
        _write_page(html, report, details)
    if output_format == JSON:
        print_json(report.document)
    else:
        print_report(console(), report)
    if senders:
        _send(senders, report)


def _details(store: DatabaseStore, record: LoadRecord) -> ReportDetails:
    plans = DatabasePlanStore(store).plans()
    return read_details(History(store), plans, record.times[0])


def _write_page(path: Path, report: ActivityReport, details: ReportDetails) -> None:
    """Write *report* with its *details* to the file *path*."""
    # matplotlib takes a second to import, and is needed only with --html.
    from opendrs.cli.report_page import report_page  # noqa: PLC0415

    page = report_page(report, details, SystemClock().now())
    with AtomicFiles() as files:
        files.new(path).write_text(page, encoding="utf-8")


def _simulated_rows(
    choice: PolicyChoice, record: LoadRecord
) -> tuple[BacktestRow, ...]:
    settings = replace(choice.backtest_settings(record.interval), with_best=False)
    with row_progress() as progress:
        return tuple(run_backtest(record, settings, progress))


def _choice(policy: str | None, settings: Settings, every: float) -> PolicyChoice:
    """Return the schedule if there is one and no *policy* is named, or a policy."""
    with_schedule = policy is None and bool(settings.schedule)
    names = () if with_schedule else (policy or settings.policy,)
    return PolicyChoice(
        settings=settings,
        names=names,
        changes={name: {} for name in names},
        with_schedule=with_schedule,
        every=every,
        seed=SEED,
    )


def _senders(settings: Settings) -> list[Sender]:
    """Return the senders of the report."""
    # The import is slow, and needed only with --send.
    from opendrs.monitoring.notifications import create_senders  # noqa: PLC0415

    return create_senders(settings.notifications, LogEventCode.REPORT, logging.INFO)


def _send(senders: Sequence[Sender], report: ActivityReport) -> None:
    """Send *report* to each of *senders*, also if another fails.

    Raises:
        DeliveryError: It could not be sent to one of them.
    """
    from opendrs.monitoring.notification_senders import Notification  # noqa: PLC0415
    from opendrs.monitoring.notifications import DeliveryError, deliver  # noqa: PLC0415

    clock, text = SystemClock(), StringIO()
    screen = TerminalConsole(
        file=text, width=TEXT_WIDTH, force_terminal=True, color_system=None
    )
    print_report(screen, report)
    notification = Notification(
        event=LogEventCode.REPORT,
        level="info",
        time=clock.now().timestamp(),
        message=summary(report),
        platform=report.backtest.source,
        host=socket.gethostname(),
        fields=report.document,
        text=text.getvalue(),
    )
    failed = []
    for sender in senders:
        try:
            deliver(sender, notification, clock.sleep)
        except DeliveryError as error:
            failed.append(f"{sender.name}: not delivered: {error}")
    if failed:
        raise DeliveryError("; ".join(failed))
