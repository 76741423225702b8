"""Parsers of JSON and TOML files, with limits of size and depth."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from opendrs.config.diagnostics import Diagnostic, DiagnosticCode, KeyPath
from opendrs.config.regular_files import MIB, read_regular
from opendrs.errors import InvalidFileError
from opendrs.escapes import escape_line

MAX_KEY_DEPTH = 100  # parts; time and memory of tomllib grow with their square
GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952, 2.3.1
MAX_FILE_SIZE = 256 * MIB  # a snapshot of 200,000 guests has about 60 million bytes
MAX_TOML_SIZE = 32 * MIB  # tomllib reads about 1 MB per second
MAX_VALUES = 1 << 24  # in JSON; a snapshot of 200,000 guests has about 4 million

# Strings and comments of TOML, also unterminated ones; possessive to scan text once.
STRING_OR_COMMENT = re.compile(
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
    """A JSON object with duplicate keys; the last value of each is kept."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.duplicate_keys = sorted(key for key, count in counts.items() if count > 1)


def read_text(path: Path, max_size: int = MAX_FILE_SIZE) -> str:
    """Return the text of *path*.

    Args:
        path: The file.
        max_size: Largest allowed size in bytes.

    Raises:
        InvalidFileError: The file does not exist, is not a regular file, is too
            large, compressed, or not UTF-8.
    """
    content = _read_bytes(path, max_size)
    if content.startswith(GZIP_MAGIC):
        raise InvalidFileError(f"{display_path(path)}: compressed; decompress it first")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFileError(
            f"{display_path(path)}: not UTF-8: byte 0x{content[error.start]:02x} at "
            f"position {error.start}"
        ) from error


def _read_bytes(path: Path, max_size: int) -> bytes:
    try:
        return read_regular(path, max_size, allow_pipes=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot read {display_path(path)}: {reason}") from error


def display_path(path: Path) -> str:
    """Return *path* on one line, with special characters escaped."""
    return escape_line(str(path))


def parse(text: str, source: str, suffix: str) -> object:
    """Return the plain values in *text*.

    Args:
        text: JSON or TOML.
        source: Origin of the text, for error messages.
        suffix: ".json" or ".toml"; otherwise the first character determines the
            format.

    Raises:
        InvalidFileError: The text is empty, or neither JSON nor TOML; with the line.
    """
    if not text.strip() and suffix != ".toml":  # empty TOML is an empty table
        raise InvalidFileError(f"{source}: empty file")
    if suffix == ".toml":
        return parse_toml(text, source)
    if suffix == ".json" or text.lstrip()[:1] in ("{", "["):
        return parse_json(text, source)
    try:
        return parse_toml(text, source)
    except InvalidFileError as error:
        raise InvalidFileError(f"{source}: neither JSON nor TOML") from error


def parse_json(text: str, source: str) -> object:
    """Return the plain values in *text*, with duplicate keys in `DuplicateKeysDict`.

    Raises:
        InvalidFileError: The text is not JSON, or exceeds a limit.
    """
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise InvalidFileError(f"{source}: more than {MAX_VALUES:,} values")
    try:
        return json.loads(text, object_pairs_hook=_build_object)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        if reason == "extra data":
            reason = "more than one value (a history has one snapshot per line)"
        position = f"line {error.lineno}, column {error.colno}"
        raise InvalidFileError(f"{source}: not JSON: {reason} ({position})") from error
    except RecursionError as error:
        raise InvalidFileError(f"{source}: nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidFileError(f"{source}: number too long") from error


def _build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    return values if len(values) == len(pairs) else DuplicateKeysDict(pairs)


def parse_toml(text: str, source: str) -> dict[str, object]:
    """Return the plain values in *text*.

    Raises:
        InvalidFileError: The text is not TOML, or exceeds a limit.
    """
    if len(text) > MAX_TOML_SIZE:
        limit = f"{MAX_TOML_SIZE // MIB} MiB of TOML"
        raise InvalidFileError(f"{source}: larger than {limit}; write it as JSON")
    if _DEEP_KEY.search(STRING_OR_COMMENT.sub("_", text)):  # also in inline tables
        raise InvalidFileError(f"{source}: nested too deeply")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFileError(f"{source}: not TOML: {error}") from error
    except RecursionError as error:
        raise InvalidFileError(f"{source}: nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidFileError(f"{source}: number too long") from error


def duplicate_key_diagnostics(
    value: object, path: KeyPath = ()
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each duplicate key."""
    if isinstance(value, DuplicateKeysDict):
        for key in value.duplicate_keys:
            message = "duplicate key; remove all but one"
            yield Diagnostic((*path, key), message, code=DiagnosticCode.DUPLICATE_KEY)
    parts: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for name, part in parts:
        if isinstance(part, dict | list):
            yield from duplicate_key_diagnostics(part, (*path, name))


def as_mapping(value: object) -> Mapping[str, object]:
    """Return *value* if it is a table, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}
