"""The log on standard error: a line for each event, whatever is in it."""

from __future__ import annotations

import json
import logging

import pytest

from opendrs.cli.logs import log_to_stderr
from opendrs.controller.events import LogEventCode, log_event, mask_logs


def log_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_text_format_has_time_level_and_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log_to_stderr("text", "info"):
        log_event(LogEventCode.STEP_STARTED, "step 1: started", step="1")

    (line,) = log_lines(capsys)
    time, level, message = line.split(maxsplit=2)
    assert (level, message) == ("INFO", "step 1: started")
    assert time.endswith("Z")


def test_json_format_has_the_event_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log_to_stderr("json", "info"):
        log_event(
            LogEventCode.STEP_STARTED, "step 1: started", step="1", level_of_load=0.5
        )

    (line,) = log_lines(capsys)
    output = json.loads(line)
    assert output.pop("time").endswith("Z")
    assert output == {
        "level": "info",
        "event": "step-started",
        "message": "step 1: started",
        "step": "1",
        "level_of_load": 0.5,
    }


def test_event_fields_do_not_replace_standard_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log_to_stderr("json", "info"):
        log_event(LogEventCode.DECISION_MADE, "nothing to do", time="never")

    (line,) = log_lines(capsys)
    assert json.loads(line)["time"] != "never"


@pytest.mark.parametrize("form", ["text", "json"])
def test_event_is_one_escaped_line(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with log_to_stderr(form, "info"):
        log_event(LogEventCode.REQUEST_ACCEPTED, "h1\n\x1b[2J\u2028: calm")

    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


@pytest.mark.parametrize("form", ["text", "json"])
def test_library_warning_names_its_logger(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with log_to_stderr(form, "error"):
        try:
            int("a number")
        except ValueError:
            logging.getLogger("library").exception("it failed")

    (line,) = log_lines(capsys)
    assert "it failed" in line
    assert "ValueError: invalid literal" in line


def test_lower_levels_are_omitted(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr("text", "warning"):
        log_event(LogEventCode.DECISION_MADE, "nothing to do")
        logging.getLogger("library").info("chatter")
        log_event(
            LogEventCode.AGENTS_UNRESPONSIVE,
            "agents unresponsive: h1",
            level=logging.WARNING,
        )

    (line,) = log_lines(capsys)
    assert line.endswith("agents unresponsive: h1")


def test_log_stops_at_the_end_of_the_context(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log_to_stderr("text", "info"):
        pass
    log_event(LogEventCode.DECISION_MADE, "nothing to do")

    assert log_lines(capsys) == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_logged_wherever_it_is(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def mask(text: str) -> str:
        return text.replace("s3cret", "[a secret]")

    with log_to_stderr(form, "info"), mask_logs(mask):
        log_event(
            LogEventCode.STEP_STARTED,
            "s3cret: started",
            guest="s3cret",
            at={"s3cret": ["s3cret"]},
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


def test_secret_is_masked_while_it_is_registered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log_to_stderr("text", "info"):
        with mask_logs(lambda text: text.replace("one", "-")):
            with mask_logs(lambda text: text.replace("two", "-")):
                log_event(LogEventCode.DECISION_MADE, "one two")
            log_event(LogEventCode.DECISION_MADE, "one two")
        log_event(LogEventCode.DECISION_MADE, "one two")

    output = [line.split(maxsplit=2)[2] for line in log_lines(capsys)]
    assert output == ["- -", "- two", "one two"]
