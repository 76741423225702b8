"""The command `opendrs`: which commands there are, and how errors are told.

A command is loaded when it is called, so that `--help` is quick.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from opendrs import __version__
from opendrs.cli.escaping_stream import escape_output
from opendrs.errors import (
    ConfigurationError,
    ModelError,
    OpenDRSError,
    PlatformUnavailableError,
)
from opendrs.escapes import escape_line

BAD_INPUT = 2
FAILURE = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
PIPE_CLOSED = 141  # 128 + SIGPIPE
MAX_LINE_LENGTH = 600  # characters of what went wrong that are shown

MIN_SIMILARITY = 0.6  # from when on a word is taken for a slip; half of another is not
COMMANDS = {
    "demo": "See it work on a simulated cluster.",
    "show": "Show nodes, guests, rules, and what is broken.",
    "plan": "Say what to move where, and why; change nothing.",
    "compare": "Show what each policy would do, side by side.",
    "apply": "Plan, ask, and do it step by step.",
    "agent": "Look after one host for the controller.",
    "run": "Look after a platform, until told to stop.",
    "token": "Make a new token for the agent of a node.",
    "record": "Write a snapshot, or a history, to a file.",
    "check": "Find everything wrong in a file, at once.",
    "compile": "Compile the search of optimize, once for this machine.",
    "simulate": "Say what policies cost over recorded load.",
    "sweep": "Simulate policies, settings, loads and seeds in every combination.",
    "drill": "Let hosts fail, and see what the HA manager does.",
}

HELP = """Keep virtual machines spread over their hosts, by live migration.

SOURCE is a snapshot file, a platform named in the configuration, or the word
demo for a simulated cluster.

\b
  opendrs demo                      watch a cluster being balanced
  opendrs plan cluster.json         what would move where, and why
  opendrs apply lab                 do it, on the platform named lab
  opendrs drill lab --each-node     whether it survives the loss of any host

\b
Exit status: 0 done, 1 the answer is no, 2 bad input, 3 a platform or the
store did not do what was asked.
"""


class LazyCommandGroup(click.Group):
    """The commands of the table above, each in a file of its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command called *cmd_name*, loaded now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"opendrs.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - for the type checker
        if "opendrs.policies.optimize" in sys.modules:
            from opendrs.cli.compile import supply_compiled_code  # noqa: PLC0415

            supply_compiled_code(background=cmd_name == "run")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that *args* begin with; guess at what a slip meant."""
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            close = get_close_matches(word, COMMANDS, n=1, cutoff=MIN_SIMILARITY)
            meant = f" Did you mean {close[0]}?" if close else ""
            ctx.fail(f"No such command {word!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the commands without loading them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=LazyCommandGroup,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--debug", is_flag=True, help="Show where an unexpected error is from.")
@click.version_option(__version__, prog_name="opendrs")
def opendrs(*, debug: bool) -> None:
    """Keep virtual machines spread over their hosts."""
    del debug  # looked for in the arguments, since it matters when parsing fails


def run(arguments: Sequence[str]) -> int:
    """Do what *arguments* say and return the exit status; raise nothing."""
    with escape_output():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        status = opendrs.main(list(arguments), "opendrs", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - here each error becomes a status
        return _report_error(error, debug="--debug" in arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _report_error(error: Exception, *, debug: bool) -> int:
    """Tell the operator about *error* and return the exit status."""
    if isinstance(error, BrokenPipeError):
        _close_output()
        return PIPE_CLOSED
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        usage = io.StringIO()
        error.show(usage)
        for line in usage.getvalue().splitlines():
            _print_error(line, start="")
        return BAD_INPUT
    if debug:
        traceback.print_exception(error)
    if isinstance(error, OpenDRSError):
        bad = isinstance(error, ConfigurationError | ModelError)
        for line in _error_lines(error):
            _print_error(line)
        return BAD_INPUT if bad else FAILURE
    if isinstance(error, OSError):  # such as a full disk below standard output
        _print_error(error.strerror or str(error))
        return FAILURE
    _print_error(f"{type(error).__name__}: {error}")
    _print_error(
        "this is a bug in opendrs; please report it, with the output of --debug"
    )
    return FAILURE


def _error_lines(error: OpenDRSError) -> Sequence[str]:
    """Return what *error* says: a line for each complaint or silent host."""
    if isinstance(error, PlatformUnavailableError):
        return (error.summary, *error.details)
    return str(error).split("\n")


def _print_error(message: str, start: str = "opendrs: ") -> None:
    line = escape_line(message[: MAX_LINE_LENGTH + 1])
    cut = "" if len(line) <= MAX_LINE_LENGTH else "..."
    sys.stderr.write(f"{start}{line[:MAX_LINE_LENGTH]}{cut}\n")


def _close_output() -> None:
    """Keep Python from writing to the closed pipe once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that knows few characters is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Matrices are small here: a second thread only waits, and keeps a core busy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:]))
