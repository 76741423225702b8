"""All findings in the project; each file is parsed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from project.layout import layout_findings
from project.names import ClassPlace, banned_names_in, class_places, duplicate_classes
from project.prose import (
    banned_phrases_in,
    long_lines,
    markdown_prose,
    prose_of,
    vague_docstrings,
)
from project.sources import Finding, markdown_files, python_files
from project.words import banned_names, banned_phrases
from structure import PACKAGE


@cache
def findings() -> Sequence[Finding]:
    """Return the findings of all checks, also those that exceptions accept."""
    return tuple(sorted({*_in_python(), *_in_markdown()}))


def findings_of(check: str) -> Sequence[Finding]:
    """Return the findings of the check with the code *check*."""
    return tuple(each for each in findings() if each.check == check)


def _in_python() -> Iterator[Finding]:
    classes: list[ClassPlace] = []
    for source in python_files():
        yield from banned_names_in(source, banned_names())
        yield from banned_phrases_in(prose_of(source), banned_phrases())
        yield from vague_docstrings(source)
        if source.path.startswith(f"{PACKAGE.as_posix()}/"):
            yield from layout_findings(source)
            classes += class_places(source)
    yield from duplicate_classes(classes)


def _in_markdown() -> Iterator[Finding]:
    for path, text in markdown_files():
        yield from banned_phrases_in([markdown_prose(path, text)], banned_phrases())
        yield from long_lines(path, text)
