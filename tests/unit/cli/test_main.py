"""Errors become an exit status and a line or two; never a traceback."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE

import click
import pytest

from opendrs.cli import main as entry
from opendrs.config import write_snapshot
from opendrs.errors import (
    DiagnosticCode,
    InvalidFileError,
    ModelError,
    PermissionDeniedError,
    PlatformUnavailableError,
    StoreError,
)
from support.builders import cluster
from support.terminal import RunOpendrs

PROGRAM = Path(sys.executable).with_name("opendrs")


def register_failing_command(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let `opendrs show` fail with *error*."""

    @click.command()
    @click.argument("source")
    @click.option("--format", "output_format")
    def command(*, source: str, output_format: str | None) -> None:
        del source, output_format
        raise error

    monkeypatch.setattr("opendrs.cli.show.command", command)


def test_help_names_every_command(opendrs: RunOpendrs) -> None:
    answer = opendrs("--help")

    assert answer.status == 0
    for name in ("demo", "show", "plan", "apply", "record", "check"):
        assert f"\n  {name} " in answer.out


@pytest.mark.parametrize("command", list(entry.COMMANDS))
def test_every_help_has_examples(opendrs: RunOpendrs, command: str) -> None:
    answer = opendrs(command, "--help")

    assert answer.status == 0
    assert f"    opendrs {command}" in answer.out


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidFileError("first", "second"), 2),
        (ModelError("first\nsecond"), 2),
        (PermissionDeniedError("first\nsecond"), 3),
        (StoreError("first\nsecond"), 3),
    ],
)
def test_expected_error_is_printed_line_by_line(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    register_failing_command(error, monkeypatch)

    answer = opendrs("show", "x")

    assert answer.status == status
    assert answer.err == "opendrs: first\nopendrs: second\n"


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (
            InvalidFileError(
                "first",
                "second",
                code=(DiagnosticCode.UNKNOWN_KEY, DiagnosticCode.WRONG_TYPE),
            ),
            ["unknown-key", "wrong-type"],
        ),
        (ModelError("first\nsecond"), ["inconsistent"] * 2),
        (PermissionDeniedError("first\nsecond"), ["permission-denied"] * 2),
        (PlatformUnavailableError("first", "second"), ["platform-unreachable"] * 2),
        (StoreError("first\nsecond"), ["store-failed"] * 2),
    ],
)
@pytest.mark.parametrize("option", [("--format", "json"), ("--format=json",)])
def test_expected_error_has_code_in_json(
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    codes: list[str],
    option: tuple[str, ...],
) -> None:
    register_failing_command(error, monkeypatch)

    answer = opendrs("show", "x", *option)

    documents = [json.loads(line) for line in answer.err.splitlines()]
    assert [each["code"] for each in documents] == codes
    assert [each["message"] for each in documents] == ["first", "second"]


def test_unexpected_error_is_reported_as_bug(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_failing_command(ZeroDivisionError("division by zero"), monkeypatch)

    answer = opendrs("show", "x")

    assert answer.status == 3
    assert answer.err.splitlines() == [
        "opendrs: ZeroDivisionError: division by zero",
        ("opendrs: this is a bug in opendrs; report it with the output of --debug"),
    ]


def test_end_of_data_in_a_command_is_no_interruption(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_failing_command(EOFError("connection ended"), monkeypatch)

    answer = opendrs("show", "x")

    assert answer.status == 3
    assert "opendrs: EOFError: connection ended" in answer.err.splitlines()


def test_debug_prints_the_traceback(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_failing_command(ZeroDivisionError(), monkeypatch)

    answer = opendrs("--debug", "show", "x")

    assert "Traceback" in answer.err


def test_a_full_disk_is_no_bug(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_failing_command(OSError(28, "No space left on device"), monkeypatch)

    answer = opendrs("show", "x")

    assert (answer.status, answer.err) == (3, "opendrs: No space left on device\n")


def test_interruption_is_silent_with_status_130(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_failing_command(KeyboardInterrupt(), monkeypatch)

    answer = opendrs("show", "x")

    assert (answer.status, answer.err.strip()) == (130, "")


@pytest.mark.parametrize(
    "arguments",
    [(), ("plot",), ("plan",), ("plan", "--no-such"), ("show", "a", "b"), ("--no",)],
)
def test_a_wrong_command_line_is_bad_input(
    opendrs: RunOpendrs, arguments: tuple[str, ...]
) -> None:
    answer = opendrs(*arguments)

    assert answer.status == 2
    assert "Traceback" not in answer.err


def run_main(
    *command: str | Path, environment: Mapping[str, str] | None = None, out: int = PIPE
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603 - our own program
        command,
        check=False,
        stdout=out,
        stderr=PIPE,
        env={**os.environ, **(environment or {})},
    )


def test_help_costs_less_than_three_tenths_of_a_second() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_main(PROGRAM, "--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    assert used < 0.3


def test_help_loads_no_large_library() -> None:
    program = (
        "import sys; from opendrs.cli.main import run; run(['--help']);"
        "print({'numpy', 'pydantic', 'rich'} & set(sys.modules))"
    )

    done = run_main(sys.executable, "-c", program)

    assert done.stdout.endswith(b"set()\n")


@pytest.mark.parametrize("command", ["plan", "show", "what-if"])
def test_command_for_a_file_loads_no_database_library(
    command: str, tmp_path: Path
) -> None:
    path = tmp_path / "cluster.json"
    write_snapshot(cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.4)}), path)
    program = (
        "import sys; from opendrs.cli.main import run;"
        f"run([{command!r}, {str(path)!r}]);"
        "print({'sqlalchemy', 'opendrs.store'} & set(sys.modules))"
    )

    done = run_main(sys.executable, "-c", program)

    assert done.stdout.endswith(b"\nset()\n")


def test_a_closed_pipe_is_quiet() -> None:
    read, write = os.pipe()
    os.close(read)

    done = run_main(PROGRAM, "plan", "demo", out=write)
    os.close(write)

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_terminal_of_few_characters_is_written_to() -> None:
    done = run_main(PROGRAM, "plan", "demo", environment={"PYTHONIOENCODING": "ascii"})

    assert done.returncode == 0
    assert re.search(rb"[0-9.]+ -> [0-9.]+;", done.stdout)


def test_misspelled_command_gets_a_suggestion(opendrs: RunOpendrs) -> None:
    answer = opendrs("pln")

    assert answer.status == 2
    assert answer.err.endswith("No such command 'pln'. Did you mean plan?\n")
    assert opendrs("xyzzy").err.endswith("No such command 'xyzzy'.\n")


@pytest.mark.parametrize("command", ["run", "agent"])
def test_snapshot_as_configuration_is_one_error_line(
    opendrs: RunOpendrs, command: str
) -> None:
    opendrs("record", "demo", "-o", "cluster.json")

    answer = opendrs(command, "cluster.json")

    assert answer.status == 2
    assert answer.err == (
        "opendrs: cluster.json: expected a configuration, got a snapshot; "
        "use opendrs plan, show or check\n"
    )


def test_each_host_that_does_not_answer_has_a_line(
    monkeypatch: pytest.MonkeyPatch, opendrs: RunOpendrs
) -> None:
    register_failing_command(
        PlatformUnavailableError("no host of lab answers", "h1: no", "h2: none"),
        monkeypatch,
    )

    answer = opendrs("show", "lab")

    assert answer.status == 3
    assert answer.err == (
        "opendrs: no host of lab answers\nopendrs: h1: no\nopendrs: h2: none\n"
    )


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("4", "4")])
def test_linear_algebra_has_one_thread_by_default(
    before: str | None, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", before or "")
    if before is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.setattr(entry, "run", lambda _: 0)

    with pytest.raises(SystemExit):
        entry.main()

    assert os.environ["OPENBLAS_NUM_THREADS"] == after
