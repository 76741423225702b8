"""The command `opendrs`: its subcommands, error messages and exit status.

A subcommand is imported when it is called, so that `--help` is fast.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise

import click

from opendrs import __version__
from opendrs.cli.escaping_stream import escape_output
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    FailureCode,
    ModelError,
    OpenDRSError,
    PlatformUnavailableError,
)
from opendrs.escapes import escape_line

JSON = "json"
BAD_INPUT = 2
FAILURE = 3
INTERRUPTED = 130  # 128 + SIGINT, as in shells
PIPE_CLOSED = 141  # 128 + SIGPIPE
MAX_LINE_LENGTH = 600  # characters of an error message that are shown
MIN_SIMILARITY = 0.6  # of a mistyped command to the suggested one; at most 1
SECTIONS = {
    "Cluster": {
        "demo": "Balance a simulated cluster.",
        "show": "Show nodes, guests, rules and violations.",
        "check": "Validate a file, or check a cluster for violated rules.",
        "plan": "Plan migrations and show the reasons; change nothing.",
        "compare": "Compare the plans of all policies.",
        "apply": "Plan, ask for confirmation, and execute the plan.",
        "drain": "Move all guests off a node, and keep it empty.",
        "undrain": "Let a drained node receive guests again.",
        "place": "Rank the nodes for the start of a guest.",
        "what-if": "Evaluate failures, new nodes or growth; show the free capacity.",
        "drill": "Simulate node failures and the response of the HA manager.",
    },
    "Controller": {
        "run": "Plan in cycles until stopped; by default, execute no plans.",
        "mode": "Show or set which plans the controller executes.",
        "pause": "Start no steps until a given time, or until resume.",
        "resume": "End a pause.",
        "plans": "Show the plans of the controller, or one plan in detail.",
        "approve": "Approve a plan, or some of its steps.",
        "reject": "Reject a plan.",
        "cancel": "Cancel an approved or running plan.",
        "status": "Show whether a controller runs, and its last cycle.",
        "top": "Show the overview in the terminal, live.",
        "serve": "Serve the dashboard and the HTTP API.",
        "access": "Create and revoke tokens for the dashboard and the HTTP API.",
        "breaker": "Show or reset the circuit breaker (open: no automatic execution).",
        "agent": "Run the agent of one host: send its load to the controller.",
    },
    "Records": {
        "history": "Show recorded cycles, plans and executed steps.",
        "explain": "Explain a recorded decision about a plan, step, guest or node.",
        "replay": "Repeat recorded decisions and report differences.",
        "backtest": "Compare several policies with each other on the recorded load.",
        "report": "Compare what happened with what one policy would have done.",
        "store": "Back up the database that contains these records.",
        "record": "Write one snapshot, or a series of snapshots, to a file.",
    },
    "Setup": {
        "connect": "Ask for the settings of a platform; write the configuration.",
        "import": "Convert the configuration of ProxLB.",
        "token": "Create a token for the agent of a node.",
        "compile": "Compile the optimizer (policy 'optimize') to machine code.",
    },
    "Simulation": {
        "simulate": "Simulate consolidation on recorded load: energy and overload.",
        "sweep": "Simulate combinations of policies, settings, traces and seeds.",
    },
}
COMMANDS = {
    name: text for commands in SECTIONS.values() for name, text in commands.items()
}
# Module and name of commands that are not called `command` in a module of their name.
_LOCATIONS = {
    "import": ("import_configuration", "command"),
    "pause": ("mode", "pause"),
    "resume": ("mode", "resume"),
    "reject": ("approve", "reject"),
    "cancel": ("approve", "cancel"),
    "what-if": ("what_if", "command"),
}

HELP = """Balance virtual machines across the nodes of a cluster by live migration.

Most commands take one argument: the name of a platform in the configuration
file opendrs.toml (lab below), a snapshot file, or the word demo for a simulated
cluster.

\b
  opendrs demo                      balance a simulated cluster
  opendrs plan cluster.json         plan for a snapshot file; change nothing
  opendrs apply lab                 plan and execute on the platform lab
  opendrs drill lab --each-node     simulate the failure of each node

\b
Exit status: 0 = done; 1 = a check failed, or steps were not started; 2 = invalid input;
3 = steps, a platform or the database failed.
"""


class LazyCommandGroup(click.Group):
    """The commands in `COMMANDS`; each is in the module of its name or `_LOCATIONS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of `COMMANDS`."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command called *cmd_name*; None if unknown."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, name = _LOCATIONS.get(cmd_name, (cmd_name, "command"))
        command = getattr(import_module(f"opendrs.cli.{module}"), name)
        assert isinstance(command, click.Command)  # noqa: S101 - for the type checker
        # The command simulate imports the policies that its file names.
        if cmd_name == "simulate" or "opendrs.policies.optimize" in sys.modules:
            from opendrs.cli.compile import supply_compiled_code  # noqa: PLC0415

            supply_compiled_code(background=cmd_name == "run")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that *args* begin with.

        Raises:
            UsageError: There is no such command; with the most similar one.
        """
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            close = get_close_matches(word, COMMANDS, n=1, cutoff=MIN_SIMILARITY)
            meant = f" Did you mean {close[0]}?" if close else ""
            ctx.fail(f"No such command {word!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the commands without importing them."""
        del ctx
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()))


@click.command(
    cls=LazyCommandGroup,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--debug", is_flag=True, help="Print the traceback of an error.")
@click.version_option(__version__, prog_name="opendrs")
def opendrs(*, debug: bool) -> None:
    """Balance virtual machines over hypervisor hosts."""
    del debug  # searched in the arguments, because parsing may fail before


def run(arguments: Sequence[str]) -> int:
    """Run the command line *arguments* and return the exit status; raise nothing."""
    with escape_output():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        status = opendrs.main(list(arguments), "opendrs", standalone_mode=False)
        sys.stdout.flush()
    except click.Abort as error:
        # click raises it for Ctrl-C, and for any EOFError of a command.
        if isinstance(error.__cause__, EOFError):
            return _report_error(error.__cause__, arguments)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - every error becomes a status
        return _report_error(error, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _report_error(error: Exception, arguments: Sequence[str]) -> int:
    """Print *error* on standard error and return the exit status."""
    if isinstance(error, BrokenPipeError):
        _close_output()
        return PIPE_CLOSED
    if isinstance(error, click.ClickException):
        usage = io.StringIO()
        error.show(usage)
        for line in usage.getvalue().splitlines():
            _print_error(line, start="")
        return BAD_INPUT
    if "--debug" in arguments:
        traceback.print_exception(error)
    if isinstance(error, OpenDRSError):
        bad = isinstance(error, ConfigurationError | ModelError)
        for code, line in _error_lines(error):
            if _is_json_requested(arguments):
                document = {"code": code, "message": line}
                sys.stderr.write(f"{json.dumps(document)}\n")
            else:
                _print_error(line)
        return BAD_INPUT if bad else FAILURE
    if isinstance(error, OSError):  # for example, standard output on a full disk
        _print_error(error.strerror or str(error))
        return FAILURE
    _print_error(f"{type(error).__name__}: {error}")
    _print_error("this is a bug in opendrs; report it with the output of --debug")
    return FAILURE


def _error_lines(error: OpenDRSError) -> Iterator[tuple[str, str]]:
    """Yield the code and text of each problem, or of each unreachable host."""
    problems: Iterable[tuple[DiagnosticCode | FailureCode, str]]
    if isinstance(error, ConfigurationError):
        problems = zip(error.codes, error.messages, strict=True)
    elif isinstance(error, PlatformUnavailableError):
        problems = ((error.code, each) for each in (error.summary, *error.details))
    else:
        problems = [(error.code, str(error))]
    for code, message in problems:
        for line in message.split("\n"):
            yield code.value, line


def _is_json_requested(arguments: Sequence[str]) -> bool:
    return "--format=json" in arguments or ("--format", JSON) in pairwise(arguments)


def _print_error(message: str, start: str = "opendrs: ") -> None:
    line = escape_line(message[: MAX_LINE_LENGTH + 1])
    cut = "" if len(line) <= MAX_LINE_LENGTH else "..."
    sys.stderr.write(f"{start}{line[:MAX_LINE_LENGTH]}{cut}\n")


def _close_output() -> None:
    """Redirect standard output, so that Python does not flush to the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def collect_garbage_less_often() -> None:
    """Raise the thresholds of the collection of reference cycles in this process.

    Snapshots are many objects without cycles. With the thresholds of Python,
    collections that find nothing take an eighth of the time in large clusters.
    """
    gc.set_threshold(50_000, 20, 20)


def main() -> None:
    """Run the command line and exit."""
    collect_garbage_less_often()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Some terminals do not support Unicode.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Matrices are small: a second thread would only spin and occupy a core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    status = run(sys.argv[1:])
    gc.freeze()  # a collection of what ends anyway takes up to a tenth of the time
    sys.exit(status)
