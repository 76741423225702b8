"""Checks of prose: banned phrases, first words of docstrings, length of lines."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from project.sources import Finding, string_of
from structure import (
    VAGUE_FIRST_WORDS,
    SourceFile,
    docstring_text,
    end_line,
    first_word,
)

PHRASE_CHECK = "banned-phrase"
DOCSTRING_CHECK = "vague-docstring"
LINE_CHECK = "long-line"
LONGEST_LINE = 110

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
BLOCK_QUOTATION = re.compile(r"^ {0,3}>")
LIST_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s")
CODE_INDENT = "    "
# Quotations and code in a line of text: `code`, ``code``, *name*, "quotation".
QUOTED = re.compile(
    r"(`+).+?\1"
    r"|(?<![\w*])\*\w+\*(?![\w*])"
    r'|"[^"\n]*(?:\n(?!\s*\n)[^"\n]*){0,2}"'
    r"|“[^”]*”"
)
LINK_TARGET = re.compile(r"\]\([^)\s]*\)|<?https?://[^\s>)]+>?|^\[[^\]]+\]: \S+")


@dataclass(frozen=True)
class ProseText:
    """A piece of prose in a file.

    Attributes:
        path: The path of the file below the root of the project.
        line: The line it begins at.
        text: The text; its line breaks are those of the file.
    """

    path: str
    line: int
    text: str


@cache
def phrase_pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for *phrases* as whole words, ignoring case."""
    longest_first = sorted(phrases, key=len, reverse=True)
    each = (r"\s+".join(map(re.escape, phrase.split())) for phrase in longest_first)
    return re.compile(rf"(?<![\w-])(?:{'|'.join(each)})(?![\w-])", re.IGNORECASE)


def without_quotations(text: str) -> str:
    """Return *text* with quotations and code blanked, its length unchanged."""
    return QUOTED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def banned_phrases_in(
    texts: Iterable[ProseText], phrases: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield each banned phrase in *texts*."""
    pattern = phrase_pattern(tuple(phrases))
    for prose in texts:
        if not pattern.search(prose.text):
            continue
        for found in pattern.finditer(without_quotations(prose.text)):
            phrase = " ".join(found.group().lower().split())
            line = prose.line + prose.text.count("\n", 0, found.start())
            detail = f'use "{phrases[phrase]}"'
            yield Finding(prose.path, line, PHRASE_CHECK, phrase, detail)


def docstrings_of(source: SourceFile) -> Iterator[ProseText]:
    """Yield the docstrings of a file."""
    for node in source.docstrings:
        yield ProseText(source.path, node.lineno, docstring_text(node))


def comments_of(source: SourceFile) -> Iterator[ProseText]:
    """Yield the comments of a file; comments in consecutive lines are one text."""
    block: list[str] = []
    first = 0
    for number, text in _comment_lines(source):
        if block and number != first + len(block):
            yield ProseText(source.path, first, "\n".join(block))
            block = []
        if not block:
            first = number
        block.append(text)
    if block:
        yield ProseText(source.path, first, "\n".join(block))


def _comment_lines(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each comment.

    A "#" begins a comment where no string is; strings are known from the syntax tree,
    which is several times as fast as a tokenizer.
    """
    numbers = [i for i, line in enumerate(source.lines, 1) if "#" in line]
    if not numbers:
        return
    starts, ends = _string_spans(source)
    for number in numbers:
        line = source.lines[number - 1].encode()
        at = line.find(b"#")
        while at >= 0 and _is_inside((number, at), starts, ends):
            at = line.find(b"#", at + 1)
        if at >= 0:
            yield number, line[at + 1 :].decode().strip()


Place = tuple[int, int]  # a line, and an offset in bytes


def _string_spans(source: SourceFile) -> tuple[list[Place], list[Place]]:
    """Return where strings begin, in order, and where each of them ends."""
    spans = {
        ((node.lineno, node.col_offset), (end_line(node), node.end_col_offset or 0))
        for node in source.nodes
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
    }
    ordered = sorted(spans)
    return [start for start, _ in ordered], [end for _, end in ordered]


def _is_inside(place: Place, starts: Sequence[Place], ends: Sequence[Place]) -> bool:
    index = bisect_right(starts, place) - 1
    return index >= 0 and place < ends[index]


def messages_of(source: SourceFile) -> Iterator[ProseText]:
    """Yield the strings of a file that hold several words, but for docstrings.

    An expression in a formatted string counts as one unknown word.
    """
    skipped = set(map(id, source.docstrings))
    for node in source.nodes:
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            text = "".join(string_of(part) or "{}" for part in node.values)
            yield ProseText(source.path, node.lineno, text)
    for node in source.nodes:
        text_or_none = string_of(node)
        if text_or_none is None or id(node) in skipped or " " not in text_or_none:
            continue
        assert isinstance(node, ast.Constant)
        yield ProseText(source.path, node.lineno, text_or_none)


def markdown_prose(path: str, text: str) -> ProseText:
    """Return the prose of a Markdown file: without code and quoted blocks."""
    kept: list[str] = []
    fence = ""
    blank, listed = True, False
    for line in text.splitlines():
        found = FENCE.match(line)
        if fence:
            if found and found.group(1).startswith(fence):
                fence = ""
            kept.append("")
            continue
        if found:
            fence = found.group(1)
            kept.append("")
            continue
        listed = bool(LIST_ITEM.match(line)) or (listed and line[:1] in (" ", ""))
        code = line.startswith(CODE_INDENT) and blank and not listed
        if code or BLOCK_QUOTATION.match(line):
            kept.append("")
            continue
        blank = not line.strip()
        kept.append(LINK_TARGET.sub(_blanked_target, line))
    return ProseText(path, 1, "\n".join(kept))


def _blanked_target(found: re.Match[str]) -> str:
    return " " * len(found.group())


def long_lines(path: str, text: str) -> Iterator[Finding]:
    """Yield the lines of a Markdown file that are too long.

    Tables, code and images may be longer, and so may lines whose links make them long.
    """
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if fenced or line.startswith(("    ", "![")) or line.lstrip().startswith("|"):
            continue
        if len(LINK_TARGET.sub("", line)) > LONGEST_LINE:
            detail = f"{len(line)} columns; at most {LONGEST_LINE}"
            yield Finding(path, number, LINE_CHECK, "line", detail)


def vague_docstrings(source: SourceFile) -> Iterator[Finding]:
    """Yield each docstring of a file that begins with a question word."""
    for node in source.docstrings:
        word = first_word(docstring_text(node))
        if word in VAGUE_FIRST_WORDS:
            detail = "begin with a noun phrase or an imperative"
            yield Finding(source.path, node.lineno, DOCSTRING_CHECK, word, detail)


def prose_of(source: SourceFile) -> Iterator[ProseText]:
    """Yield the prose of a file: docstrings, comments, messages of the package."""
    yield from docstrings_of(source)
    yield from comments_of(source)
    if source.path.startswith("src/"):
        yield from messages_of(source)
