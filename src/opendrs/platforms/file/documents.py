"""From the bytes of a file to plain values, or one clear complaint."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from opendrs.errors import InvalidFileError
from opendrs.escapes import escaped_line
from opendrs.platforms.file.complaints import Complaint, Location
from opendrs.platforms.ordinary_files import MIB, read_ordinary

DEEPEST_KEY = 100  # parts; tomllib takes time and memory in the square of their number
GZIP = b"\x1f\x8b"  # RFC 1952, 2.3.1
LARGEST_FILE = 256 * MIB  # a snapshot of 200,000 guests has some 60 million bytes
LARGEST_TOML = 32 * MIB  # tomllib reads some 1 MB a second
MOST_VALUES = 1 << 24  # in JSON; a snapshot of 200,000 guests has some 4 million

# Strings and comments of TOML, also those that lack their end: text is passed once.
_OPAQUE = re.compile(
    r'''"""(?:[^"\\]|\\.|"{1,2}+(?!"))*+"{0,5}+'''
    r"""|'{3}(?:[^']|'{1,2}+(?!'))*+'{0,5}+"""
    r"""|"(?:[^"\\\n]|\\[^\n])*+"?"""
    r"""|'[^'\n]*+'?|\#[^\n]*+""",
    re.DOTALL,
)
_DEEP_KEY = re.compile(
    rf"(?<![\w.-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{DEEPEST_KEY}}}", re.ASCII
)


class RepeatedKeys(dict[str, object]):
    """An object in which keys stand more than once; the last value is kept."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = sorted(key for key, count in counts.items() if count > 1)


def read_text(path: Path) -> str:
    """Return the text of *path*.

    Raises:
        InvalidFileError: There is no such file, it is not an ordinary one, too large,
            compressed, or not text.
    """
    content = _content(path)
    if content.startswith(GZIP):
        raise InvalidFileError(f"{shown_path(path)} is compressed: unpack it first")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFileError(
            f"{shown_path(path)} is not text: byte 0x{content[error.start]:02x} at "
            f"position {error.start} is not UTF-8"
        ) from error


def _content(path: Path) -> bytes:
    try:
        return read_ordinary(path, LARGEST_FILE, pipes=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot read {shown_path(path)}: {reason}") from error


def shown_path(path: Path) -> str:
    """Return *path* on one line, whatever it holds."""
    return escaped_line(str(path))


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
    """Return the values that *text* holds; see `RepeatedKeys`."""
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise InvalidFileError(f"{source} holds more than {MOST_VALUES:,} values")
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        if reason == "extra data":
            reason = "more than one value (a history has one snapshot a line)"
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidFileError(f"{source} is not JSON: {reason} ({where})") from error
    except RecursionError as error:
        raise InvalidFileError(f"{source} is nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidFileError(f"{source} holds too long a number") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else RepeatedKeys(pairs)


def parse_toml(text: str, source: str) -> dict[str, object]:
    """Return the values that *text* holds."""
    if len(text) > LARGEST_TOML:
        limit = f"{LARGEST_TOML // MIB} MiB of TOML"
        raise InvalidFileError(f"{source} is larger than {limit}; write it as JSON")
    if _DEEP_KEY.search(_OPAQUE.sub("_", text)):  # in a table in a line, too
        raise InvalidFileError(f"{source} is nested too deeply")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFileError(f"{source} is not TOML: {error}") from error
    except RecursionError as error:
        raise InvalidFileError(f"{source} is nested too deeply") from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidFileError(f"{source} holds too long a number") from error


def repeated_keys(value: object, at: Location = ()) -> Iterator[Complaint]:
    """Yield a complaint about each key that stands more than once."""
    if isinstance(value, RepeatedKeys):
        for key in value.repeated:
            yield Complaint((*at, key), "this key stands more than once")
    if isinstance(value, dict):
        for key, part in value.items():
            yield from repeated_keys(part, (*at, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from repeated_keys(part, (*at, index))
