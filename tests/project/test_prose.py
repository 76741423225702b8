"""Prose: no banned phrases, docstrings that begin well, lines that fit."""

from __future__ import annotations

import ast

import pytest

from project.findings import findings_of
from project.prose import (
    DOCSTRING_CHECK,
    LINE_CHECK,
    LONGEST_LINE,
    PHRASE_CHECK,
    banned_phrases_in,
    long_lines,
    markdown_prose,
    prose_of,
    vague_docstrings,
)
from project.sources import assert_none_remain
from structure import SourceFile

PHRASES = {"red": "blue", "on fire": "burning"}


def source_file(text: str, path: str = "src/opendrs/example.py") -> SourceFile:
    """Return a file with this content."""
    return SourceFile(path, text, ast.parse(text))


def in_python(text: str, path: str = "src/opendrs/example.py") -> list[tuple[int, str]]:
    """Return the line and the phrase of each finding in a Python file."""
    found = banned_phrases_in(prose_of(source_file(text, path)), PHRASES)
    return sorted((each.line, each.name) for each in found)


def in_markdown(text: str) -> list[tuple[int, str]]:
    """Return the line and the phrase of each finding in a Markdown file."""
    found = banned_phrases_in([markdown_prose("a.md", text)], PHRASES)
    return [(each.line, each.name) for each in found]


def test_prose_of_the_project_has_no_banned_phrases() -> None:
    assert_none_remain(findings_of(PHRASE_CHECK))


def test_docstrings_of_the_project_begin_with_a_noun_or_an_imperative() -> None:
    assert_none_remain(findings_of(DOCSTRING_CHECK))


def test_lines_of_markdown_files_fit() -> None:
    assert_none_remain(findings_of(LINE_CHECK))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""A hat is\non fire."""', [(2, "on fire")]),
        ('"""A hat is on\nfire, and Red."""', [(1, "on fire"), (2, "red")]),
        ("# it is on\n# fire\nx = 1  # red", [(1, "on fire"), (3, "red")]),
        ('x = "a red hat"', [(1, "red")]),
        ('x = f"{y} is on fire"', [(1, "on fire")]),
        ('x = "red"', []),
        ('x = "no # red comment here".split()', [(1, "red")]),
        ('"""A redo, credible, infra-red."""', []),
        ('"""The name `red`, ``red``, *red*, and "red"."""', []),
    ],
)
def test_banned_phrases_in_python_are_found(
    text: str, expected: list[tuple[int, str]]
) -> None:
    assert in_python(text) == expected


def test_banned_phrases_in_strings_of_tests_are_not_found() -> None:
    assert in_python('x = "a red hat"\n', "tests/unit/test_example.py") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A red hat.", [(1, "red")]),
        ("It is on\nfire.", [(1, "on fire")]),
        ("| red | hat |", [(1, "red")]),
        ("- one\n\n    still red\n", [(3, "red")]),
        ("Use `red`, or “red”.", []),
        ("```\nred\n```\nred", [(4, "red")]),
        ("Text:\n\n    red --hat\n    red\n\nred", [(6, "red")]),
        ("> red\n", []),
        ("[a hat](red.md) https://example.com/red", []),
    ],
)
def test_banned_phrases_in_markdown_are_found(
    text: str, expected: list[tuple[int, str]]
) -> None:
    assert in_markdown(text) == expected


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("What it does.", ["What"]),
        ("Which, of all.", ["Which"]),
        ("\n    How.\n", ["How"]),
        ("Howitzer.", []),
        ("Return what it does.", []),
    ],
)
def test_vague_docstrings_begin_with_a_question_word(
    docstring: str, expected: list[str]
) -> None:
    source = source_file(f'def f():\n    """{docstring}"""\n')

    assert [each.name for each in vague_docstrings(source)] == expected


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("x" * LONGEST_LINE, 0),
        ("x" * (LONGEST_LINE + 1), 1),
        ("| " + "x" * LONGEST_LINE + " |", 0),
        ("[text](" + "x" * LONGEST_LINE + ")", 0),
        ("x" * LONGEST_LINE + " [text](y)", 1),
        ("see https://example.com/" + "x" * LONGEST_LINE, 0),
    ],
)
def test_long_lines_exempt_tables_and_links(line: str, count: int) -> None:
    assert len(list(long_lines("a.md", line))) == count
