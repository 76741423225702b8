"""Parse JSON and TOML files into plain values, within limits of size and depth."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from opendrs.config.diagnostics import Diagnostic, KeyPath
from opendrs.config.regular_files import MIB, read_regular
from opendrs.errors import InvalidFileError
from opendrs.escapes import escape_line

MAX_KEY_DEPTH = (
    100  # parts; tomllib takes time and memory in the square of their number
)
GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952, 2.3.1
MAX_FILE_SIZE = 256 * MIB  # a snapshot of 200,000 guests has some 60 million bytes
MAX_TOML_SIZE = 32 * MIB  # tomllib reads some 1 MB a second
MAX_VALUES = 1 << 24  # in JSON; a snapshot of 200,000 guests has some 4 million

# Strings and comments of TOML, also those that lack their end: text is passed once.
_STRING_OR_COMMENT = re.compile(
    r'''"""(?:[^"\\]|\\.|"{1,2}+(?!"))*+"{0,5}+'''
    r"""|'{3}(?:[^']|'{1,2}+(?!'))*+'{0,5}+"""
    r"""|"(?:[^"\\\n]|\\[^\n])*+"?"""
    r"""|'[^'\n]*+'?|\#[^\n]*+""",
    re.DOTALL,
)
_DEEP_KEY = re.compile(
    rf"(?<![\w.-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{MAX_KEY_DEPTH}}}", re.ASCII
)


class DuplicateKeysDict(dict[str, object]):
    """An object in which keys stand more than once; the last value is kept."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.duplicate_keys = sorted(key for key, count in counts.items() if count > 1)


def read_text(path: Path) -> str:
    """Return the text of *path*.

    Raises:
        InvalidFileError: There is no such file, it is not an ordinary one, too large,
            compressed, or not text.
    """
    content = _read_bytes(path)
    if content.startswith(GZIP_MAGIC):
        raise InvalidFileError(f"{display_path(path)} is compressed: unpack it first")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFileError(
            f"{display_path(path)} is not text: byte 0x{content[error.start]:02x} at "
            f"position {error.start} is not UTF-8"
        ) from error


def _read_bytes(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_FILE_SIZE, allow_pipes=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot read {display_path(path)}: {reason}") from error


def display_path(path: Path) -> str:
    """Return *path* on one line, whatever it holds."""
    return escape_line(str(path))


def parse(text: str, source: str, suffix: str) -> object:
    """Return the values that *text* holds.

    Args:
        text: JSON or TOML.
        source: Where it comes from, to begin complaints with.
        suffix: ".json", ".toml", or anything else to go by the first character.

    Raises:
        InvalidFileError: It is neither, or empty; the message says in which line.
    """
    if not text.strip() and suffix != ".toml":  # an empty table, in TOML
        raise InvalidFileError(f"{source} is empty")
    if suffix == ".toml":
        return parse_toml(text, source)
    if suffix == ".json" or text.lstrip()[:1] in ("{", "["):
        return parse_json(text, source)
    try:
        return parse_toml(text, source)
    except InvalidFileError as error:
        raise InvalidFileError(f"{source} is neither JSON nor TOML") from error


def parse_json(text: str, source: str) -> object:
    """Return the values that *text* holds; see `DuplicateKeysDict`."""
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise InvalidFileError(f"{source} holds more than {MAX_VALUES:,} values")
    try:
        return json.loads(text, object_pairs_hook=_build_object)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        if reason == "extra data":
            reason = "more than one value (a history has one snapshot a line)"
        position = f"line {error.lineno}, column {error.colno}"
        raise InvalidFileError(
            f"{source} is not JSON: {reason} ({position})"
        ) from error
    except RecursionError as error:
        raise InvalidFileError(f"{source} is nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidFileError(f"{source} holds too long a number") from error


def _build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    return values if len(values) == len(pairs) else DuplicateKeysDict(pairs)


def parse_toml(text: str, source: str) -> dict[str, object]:
    """Return the values that *text* holds."""
    if len(text) > MAX_TOML_SIZE:
        limit = f"{MAX_TOML_SIZE // MIB} MiB of TOML"
        raise InvalidFileError(f"{source} is larger than {limit}; write it as JSON")
    if _DEEP_KEY.search(_STRING_OR_COMMENT.sub("_", text)):  # in a table in a line, too
        raise InvalidFileError(f"{source} is nested too deeply")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFileError(f"{source} is not TOML: {error}") from error
    except RecursionError as error:
        raise InvalidFileError(f"{source} is nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidFileError(f"{source} holds too long a number") from error


def duplicate_key_diagnostics(
    value: object, path: KeyPath = ()
) -> Iterator[Diagnostic]:
    """Yield a complaint about each key that stands more than once."""
    if isinstance(value, DuplicateKeysDict):
        for key in value.duplicate_keys:
            yield Diagnostic((*path, key), "this key stands more than once")
    if isinstance(value, dict):
        for key, part in value.items():
            yield from duplicate_key_diagnostics(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from duplicate_key_diagnostics(part, (*path, index))
