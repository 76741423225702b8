"""Names from elsewhere: no command writes what a terminal obeys, in no form."""

from __future__ import annotations

import ast
import io
import json
import logging
import sys
import xml.etree.ElementTree as ET
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from rich.text import Text

import opendrs as package
from opendrs.cli.console import TerminalConsole, print_json, warn
from opendrs.cli.escaping_stream import escape_output
from opendrs.cli.main import run
from opendrs.cli.progress import progress_bars
from opendrs.config import read_snapshot, write_snapshot
from opendrs.model import AntiAffinity, NodeAffinity, NodeId, Snapshot
from support.builders import cluster, guest_ids
from support.terminal import RunOpendrs

CONTROL_CHARACTERS = (
    "\x1b[2J\x9b31m\x07\x7f\x85\u2028\u202e\u2066\u200f\u061c\u200b\ufeff[red]$\\frac"
)
NODE, GUEST, RULE = (
    f"n{CONTROL_CHARACTERS}",
    f"v{CONTROL_CHARACTERS}",
    f"r{CONTROL_CHARACTERS}",
)


def unprintable_cluster() -> Snapshot:
    """Return a cluster of odd names in which there is something to do."""
    nodes: dict[str, float | None] = {NODE: 0.9, "b": 0.1}
    guests = {GUEST: (NODE, 0.4), f"w{CONTROL_CHARACTERS}": (NODE, 0.4)}
    both = guest_ids(*guests)
    away = NodeAffinity(
        guests=guest_ids(GUEST), nodes={NodeId("b"): 1}, strict=True, name=RULE
    )
    apart = AntiAffinity(guests=both, strict=True, name=f"s{CONTROL_CHARACTERS}")
    return cluster(nodes=nodes, guests=guests, rules=(away, apart))


def assert_escaped(text: str) -> None:
    wrong = {mark for mark in text if not mark.isprintable() and mark not in "\n\t"}
    assert not wrong, ascii(text)


COMMANDS = [
    ("show", "odd.json", "--guests"),
    ("show", "odd.toml"),
    ("plan", "odd.json"),
    ("plan", "odd.json", "--policy", "optimize"),
    (
        "compare",
        "odd.json",
        "--policy",
        "balance",
        "--plot",
        f"{CONTROL_CHARACTERS}.svg",
    ),
    ("check", "odd.json"),
    ("drill", "odd.json", "--fail", NODE),
    ("drill", "odd.json", "--each-node"),
]


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_no_command_writes_control_characters(
    opendrs: RunOpendrs, command: tuple[str, ...], form: str
) -> None:
    write_snapshot(unprintable_cluster(), Path("odd.json"))
    write_snapshot(unprintable_cluster(), Path("odd.toml"))

    answer = opendrs(*command, "--format", form)

    assert answer.out + answer.err
    assert_escaped(answer.out)
    assert_escaped(answer.err)
    if answer.out and form == "json" and command[0] != "drill":
        assert "\\u001b" not in str(json.loads(answer.out))


def test_names_in_json_are_what_they_were(opendrs: RunOpendrs) -> None:
    write_snapshot(unprintable_cluster(), Path("odd.json"))

    shown = json.loads(opendrs("show", "odd.json", "--format", "json").out)
    steps = json.loads(opendrs("plan", "odd.json", "--format", "json").out)["steps"]

    assert set(shown["snapshot"]["guests"]) == {GUEST, f"w{CONTROL_CHARACTERS}"}
    assert steps[0]["guest"] in shown["snapshot"]["guests"]


@pytest.mark.parametrize("name", ["odd.json", "odd.toml", "odd.jsonl"])
def test_files_have_names_without_control_characters(
    opendrs: RunOpendrs, name: str
) -> None:
    write_snapshot(unprintable_cluster(), Path("origin.json"))
    options = ["--every", "1", "--count", "1"] if name.endswith("l") else []

    assert opendrs("record", "origin.json", "-o", name, *options).status == 0

    assert_escaped(Path(name).read_text())
    if not options:
        assert read_snapshot(Path(name)) == unprintable_cluster()


@pytest.mark.parametrize(
    "command",
    [
        ("show", f"{CONTROL_CHARACTERS}.json"),
        ("show", CONTROL_CHARACTERS),
        (CONTROL_CHARACTERS,),
        ("plan", "demo", "--policy", CONTROL_CHARACTERS),
        ("plan", "demo", "--set", f"{CONTROL_CHARACTERS}=1"),
        ("plan", "demo", "--config", CONTROL_CHARACTERS),
        ("plan", "demo", f"--{CONTROL_CHARACTERS}"),
        ("run", CONTROL_CHARACTERS),
        ("token", CONTROL_CHARACTERS),
        ("record", "demo", "-o", f"{CONTROL_CHARACTERS}/x"),
        ("simulate", "planetlab", CONTROL_CHARACTERS),
        ("sweep", CONTROL_CHARACTERS, "-o", "x.parquet"),
        ("drill", CONTROL_CHARACTERS),
    ],
    ids=lambda words: words[0][:8].encode("unicode_escape").decode(),
)
def test_messages_about_unprintable_arguments_are_lines(
    opendrs: RunOpendrs, command: tuple[str, ...]
) -> None:
    answer = opendrs(*command)

    assert answer.status == 2
    assert_escaped(answer.err)


def test_traceback_escapes_names(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(CONTROL_CHARACTERS)

    monkeypatch.setattr("opendrs.cli.show.observe", fail)

    answer = opendrs("--debug", "show", "demo")

    assert "\\u001b" in answer.err
    assert_escaped(answer.err)


def test_library_output_is_escaped() -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), escape_output():
        sys.stdout.writelines([CONTROL_CHARACTERS, "\n"])
        print(CONTROL_CHARACTERS)  # noqa: T201 - as a library may
        logging.StreamHandler(sys.stderr).emit(
            logging.makeLogRecord({"msg": CONTROL_CHARACTERS, "levelno": logging.ERROR})
        )
        warn(CONTROL_CHARACTERS)
        print_json({CONTROL_CHARACTERS: CONTROL_CHARACTERS})

    assert_escaped(out.getvalue())
    assert_escaped(err.getvalue())
    assert "\\u202e" in out.getvalue()
    assert "\\u202e" in err.getvalue()


def test_console_escapes_text_and_keeps_its_styles() -> None:
    out = io.StringIO()
    screen = TerminalConsole(
        file=out,
        force_terminal=True,
        color_system="standard",
        width=200,
        markup=False,
        highlight=False,
    )
    with escape_output():
        screen.print(CONTROL_CHARACTERS)
        screen.print(Text(CONTROL_CHARACTERS, style="red"))

    plain, red = out.getvalue().splitlines()
    assert_escaped(plain)
    assert red.startswith("\x1b[31m")
    assert red.endswith("\x1b[0m")
    assert_escaped(red.removeprefix("\x1b[31m").removesuffix("\x1b[0m"))
    assert "[red]" in plain


def test_console_writes_to_the_terminal() -> None:
    out = io.StringIO()
    with redirect_stdout(out), escape_output():
        screen = TerminalConsole(force_terminal=True, color_system="standard")
        screen.print(Text("a", style="red"))

    assert out.getvalue() == "\x1b[31ma\x1b[0m\n"


def test_progress_bars_escape_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    err = io.StringIO()
    with redirect_stderr(err), escape_output(), progress_bars() as bars:
        assert bars is not None
        bars.add_task(CONTROL_CHARACTERS)
        bars.refresh()

    assert "\x1b[2J" not in err.getvalue()
    assert not {*"\x9b\x85\u202e\u2066\ufeff"} & set(err.getvalue())


def test_plot_escapes_names(opendrs: RunOpendrs) -> None:
    write_snapshot(unprintable_cluster(), Path("odd.json"))
    Path(CONTROL_CHARACTERS).symlink_to("odd.json")

    compared = opendrs(
        "compare", CONTROL_CHARACTERS, "--policy", "balance", "--plot", "a.svg"
    )

    assert compared.status == 0
    text = Path("a.svg").read_text()
    assert_escaped(text)
    ET.fromstring(text)  # noqa: S314 - our own file
    assert "\\u202e" in text


def test_run_keeps_foreign_streams_open() -> None:
    before = sys.stdout, sys.stderr

    run(["--version"])

    assert (sys.stdout, sys.stderr) == before


def test_only_the_console_bypasses_escaping() -> None:
    sources = Path(package.__file__).parent.rglob("*.py")
    calls = [
        path.name
        for path in sources
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Console"
    ]

    assert calls == []
