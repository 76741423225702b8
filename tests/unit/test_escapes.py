"""Escapes of control and invisible characters."""

from __future__ import annotations

import json
import tomllib
import unicodedata

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from opendrs.escapes import escape_line, escape_text, escape_toml

OBEYED = [
    *map(chr, range(0x20)),  # C0
    "\x7f",
    *map(chr, range(0x80, 0xA0)),  # C1
    *"\u2028\u2029\u0085",  # line separators
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",  # bidi
    *"\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u3164\ufe0f\U000e0061",  # no width
    *"\ud800\udcff",  # lone surrogates
]


@pytest.mark.parametrize("mark", OBEYED, ids=lambda mark: f"U+{ord(mark):04X}")
def test_a_mark_that_is_obeyed_or_hidden_is_written_as_an_escape(mark: str) -> None:
    assert (
        escape_line(f"a{mark}b")
        == "a" + json.dumps(f"{mark}")[1:-1].replace("\x7f", "\\u007f") + "b"
    )
    assert escape_line(f"a{mark}b").isascii()


@pytest.mark.parametrize(
    "text", ["vm-1 [red]", "é ü ß", "虚拟机", "→ ▁▂█ 😀", "\\u001b"]
)
def test_what_can_be_seen_is_left_as_it_is(text: str) -> None:
    assert escape_line(text) == escape_text(text) == escape_toml(text) == text


def test_lines_stay_lines_and_a_name_stays_on_its_line() -> None:
    assert escape_text("a\n\tb") == "a\n\tb"
    assert escape_line("a\n\tb\r") == "a\\n\\tb\\r"


@given(st.text(st.characters(codec=None)))
def test_nothing_is_left_that_is_not_seen(text: str) -> None:
    found = escape_line(text)

    kinds = {unicodedata.category(mark) for mark in found}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert escape_line(found) == found


@given(st.recursive(st.text(st.characters(codec=None)), st.lists))
def test_json_keeps_its_value(value: object) -> None:
    text = escape_text(json.dumps(value, ensure_ascii=False, indent=2))

    assert json.loads(text) == value
    text.encode()  # no lone surrogate is left


@given(st.dictionaries(st.text(), st.text()))
def test_toml_keeps_its_value(value: dict[str, str]) -> None:
    text = escape_toml(tomli_w.dumps(value))

    assert tomllib.loads(text) == value
    assert all(line.isprintable() for line in text.replace("\t", "").split("\n"))
