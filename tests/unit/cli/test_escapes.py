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
from builders import cluster, guest_ids
from opendrs.cli.live import progress_bars
from opendrs.cli.main import run
from opendrs.cli.screen import Screen, print_json, warn
from opendrs.cli.streams import escaping
from opendrs.model import AntiAffinity, NodeAffinity, NodeId, Snapshot
from opendrs.platforms.file import read_snapshot, write_snapshot
from terminal import Opendrs

MARKS = (
    "\x1b[2J\x9b31m\x07\x7f\x85\u2028\u202e\u2066\u200f\u061c\u200b\ufeff[red]$\\frac"
)
NODE, GUEST, RULE = f"n{MARKS}", f"v{MARKS}", f"r{MARKS}"


def odd() -> Snapshot:
    """Return a cluster of odd names in which there is something to do."""
    nodes: dict[str, float | None] = {NODE: 0.9, "b": 0.1}
    guests = {GUEST: (NODE, 0.4), f"w{MARKS}": (NODE, 0.4)}
    both = guest_ids(*guests)
    away = NodeAffinity(
        guests=guest_ids(GUEST), nodes={NodeId("b"): 1}, strict=True, name=RULE
    )
    apart = AntiAffinity(guests=both, strict=True, name=f"s{MARKS}")
    return cluster(nodes=nodes, guests=guests, rules=(away, apart))


def require_nothing_obeyed(text: str) -> None:
    wrong = {mark for mark in text if not mark.isprintable() and mark not in "\n\t"}
    assert not wrong, ascii(text)


COMMANDS = [
    ("show", "odd.json", "--guests"),
    ("show", "odd.toml"),
    ("plan", "odd.json"),
    ("plan", "odd.json", "--policy", "optimize"),
    ("compare", "odd.json", "--policy", "balance", "--plot", f"{MARKS}.svg"),
    ("check", "odd.json"),
    ("drill", "odd.json", "--fail", NODE),
    ("drill", "odd.json", "--fail-each"),
]


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_no_command_writes_what_a_terminal_obeys(
    opendrs: Opendrs, command: tuple[str, ...], form: str
) -> None:
    write_snapshot(odd(), Path("odd.json"))
    write_snapshot(odd(), Path("odd.toml"))

    answer = opendrs(*command, "--format", form)

    assert answer.out + answer.err
    require_nothing_obeyed(answer.out)
    require_nothing_obeyed(answer.err)
    if answer.out and form == "json" and command[0] != "drill":
        assert "\\u001b" not in str(json.loads(answer.out))


def test_names_in_json_are_what_they_were(opendrs: Opendrs) -> None:
    write_snapshot(odd(), Path("odd.json"))

    shown = json.loads(opendrs("show", "odd.json", "--format", "json").out)
    steps = json.loads(opendrs("plan", "odd.json", "--format", "json").out)["steps"]

    assert set(shown["snapshot"]["guests"]) == {GUEST, f"w{MARKS}"}
    assert steps[0]["guest"] in shown["snapshot"]["guests"]


@pytest.mark.parametrize("name", ["odd.json", "odd.toml", "odd.jsonl"])
def test_files_hold_the_names_and_nothing_that_a_terminal_obeys(
    opendrs: Opendrs, name: str
) -> None:
    write_snapshot(odd(), Path("origin.json"))
    options = ["--every", "1", "--count", "1"] if name.endswith("l") else []

    assert opendrs("record", "origin.json", "-o", name, *options).status == 0

    require_nothing_obeyed(Path(name).read_text())
    if not options:
        assert read_snapshot(Path(name)) == odd()


@pytest.mark.parametrize(
    "command",
    [
        ("show", f"{MARKS}.json"),
        ("show", MARKS),
        (MARKS,),
        ("plan", "demo", "--policy", MARKS),
        ("plan", "demo", "--set", f"{MARKS}=1"),
        ("plan", "demo", "--config", MARKS),
        ("plan", "demo", f"--{MARKS}"),
        ("run", MARKS),
        ("token", MARKS),
        ("record", "demo", "-o", f"{MARKS}/x"),
        ("simulate", "planetlab", MARKS),
        ("sweep", MARKS, "-o", "x.parquet"),
        ("drill", MARKS),
    ],
    ids=lambda words: words[0][:8].encode("unicode_escape").decode(),
)
def test_messages_about_odd_words_are_lines(
    opendrs: Opendrs, command: tuple[str, ...]
) -> None:
    answer = opendrs(*command)

    assert answer.status == 2
    require_nothing_obeyed(answer.err)


def test_a_traceback_shows_no_name_as_it_is(
    opendrs: Opendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(MARKS)

    monkeypatch.setattr("opendrs.cli.show.observe", fail)

    answer = opendrs("--debug", "show", "demo")

    assert "\\u001b" in answer.err
    require_nothing_obeyed(answer.err)


def test_what_others_print_is_escaped() -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), escaping():
        sys.stdout.writelines([MARKS, "\n"])
        print(MARKS)  # noqa: T201 - as a library may
        logging.StreamHandler(sys.stderr).emit(
            logging.makeLogRecord({"msg": MARKS, "levelno": logging.ERROR})
        )
        warn(MARKS)
        print_json({MARKS: MARKS})

    require_nothing_obeyed(out.getvalue())
    require_nothing_obeyed(err.getvalue())
    assert "\\u202e" in out.getvalue()
    assert "\\u202e" in err.getvalue()


def test_a_screen_escapes_what_it_is_given_and_not_what_it_sets_itself() -> None:
    out = io.StringIO()
    screen = Screen(
        file=out,
        force_terminal=True,
        color_system="standard",
        width=200,
        markup=False,
        highlight=False,
    )
    with escaping():
        screen.print(MARKS)
        screen.print(Text(MARKS, style="red"))

    plain, red = out.getvalue().splitlines()
    require_nothing_obeyed(plain)
    assert red.startswith("\x1b[31m")
    assert red.endswith("\x1b[0m")
    require_nothing_obeyed(red.removeprefix("\x1b[31m").removesuffix("\x1b[0m"))
    assert "[red]" in plain


def test_a_screen_writes_to_the_terminal_itself() -> None:
    out = io.StringIO()
    with redirect_stdout(out), escaping():
        screen = Screen(force_terminal=True, color_system="standard")
        screen.print(Text("a", style="red"))

    assert out.getvalue() == "\x1b[31ma\x1b[0m\n"


def test_bars_show_no_name_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    err = io.StringIO()
    with redirect_stderr(err), escaping(), progress_bars() as bars:
        assert bars is not None
        bars.add_task(MARKS)
        bars.refresh()

    assert "\x1b[2J" not in err.getvalue()
    assert not {*"\x9b\x85\u202e\u2066\ufeff"} & set(err.getvalue())


def test_a_picture_holds_no_name_as_it_is(opendrs: Opendrs) -> None:
    write_snapshot(odd(), Path("odd.json"))
    Path(MARKS).symlink_to("odd.json")

    compared = opendrs("compare", MARKS, "--policy", "balance", "--plot", "a.svg")

    assert compared.status == 0
    text = Path("a.svg").read_text()
    require_nothing_obeyed(text)
    ET.fromstring(text)  # noqa: S314 - our own file
    assert "\\u202e" in text


def test_run_closes_nothing_it_has_not_opened() -> None:
    before = sys.stdout, sys.stderr

    run(["--version"])

    assert (sys.stdout, sys.stderr) == before


def test_only_a_screen_writes_to_the_terminal_past_the_escapes() -> None:
    sources = Path(package.__file__).parent.rglob("*.py")
    calls = [
        path.name
        for path in sources
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Console"
    ]

    assert calls == []
