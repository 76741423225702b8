"""The log on standard error: a line for each event, whatever is in it."""

from __future__ import annotations

import json
import logging

import pytest

from opendrs.cli.logs import logged
from opendrs.controller.telling import tell


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_people_get_time_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    with logged("table", "info"):
        tell("step-started", "step 1: started", step="1")

    (line,) = lines(capsys)
    time, level, message = line.split(maxsplit=2)
    assert (level, message) == ("INFO", "step 1: started")
    assert time.endswith("Z")


def test_programs_get_what_the_event_is_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logged("json", "info"):
        tell("step-started", "step 1: started", step="1", level_of_load=0.5)

    (line,) = lines(capsys)
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "info",
        "event": "step-started",
        "message": "step 1: started",
        "step": "1",
        "level_of_load": 0.5,
    }


def test_what_an_event_is_about_takes_the_place_of_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logged("json", "info"):
        tell("decided", "nothing to do", time="never")

    (line,) = lines(capsys)
    assert json.loads(line)["time"] != "never"


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_event_is_one_line_that_no_terminal_obeys(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with logged(form, "info"):
        tell("request-accepted", "h1\n\x1b[2J\u2028: calm")

    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_error_of_a_library_is_told_with_where_it_is_from(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with logged(form, "error"):
        try:
            int("a number")
        except ValueError:
            logging.getLogger("library").exception("it failed")

    (line,) = lines(capsys)
    assert "it failed" in line
    assert "ValueError: invalid literal" in line


def test_what_matters_less_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with logged("table", "warning"):
        tell("decided", "nothing to do")
        logging.getLogger("library").info("chatter")
        tell("not-heard", "not heard: h1", level=logging.WARNING)

    (line,) = lines(capsys)
    assert line.endswith("not heard: h1")


def test_afterwards_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with logged("table", "info"):
        pass
    tell("decided", "nothing to do")

    assert lines(capsys) == []
