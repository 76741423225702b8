"""The log on standard error: a line for each event, whatever is in it."""

from __future__ import annotations

import json
import logging

import pytest

from opendrs.cli.logs import logged
from opendrs.controller.masking import masked_in_logs
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


@pytest.mark.parametrize("form", ["table", "json"])
def test_no_secret_is_logged_wherever_it_is(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def mask(text: str) -> str:
        return text.replace("s3cret", "[a secret]")

    with logged(form, "info"), masked_in_logs(mask):
        tell(
            "step-started", "s3cret: started", guest="s3cret", at={"s3cret": ["s3cret"]}
        )
        logging.getLogger("another.library").warning("guest %s is odd", "s3cret")
        secret = "s3cret"  # noqa: S105 - opens nothing
        try:
            int(secret)
        except ValueError:
            logging.getLogger("another.library").exception("s3cret failed")

    text = capsys.readouterr().err
    assert "s3cret" not in text
    assert text.count("[a secret]") == (7 if form == "json" else 4)
    assert "base 10: '[a secret]'" in text


def test_secrets_are_known_for_as_long_as_they_are_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logged("table", "info"):
        with masked_in_logs(lambda text: text.replace("one", "-")):
            with masked_in_logs(lambda text: text.replace("two", "-")):
                tell("decided", "one two")
            tell("decided", "one two")
        tell("decided", "one two")

    told = [line.split(maxsplit=2)[2] for line in lines(capsys)]
    assert told == ["- -", "- two", "one two"]
