"""Values of scenario files with their location, converted as in Perl.

A number may be a string. A missing value, the empty string and 0 are false.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opendrs.config.regular_files import MIB, read_regular
from opendrs.errors import DiagnosticCode, InvalidFileError

MAX_FILE_SIZE = 64 * MIB  # bytes; the status of 10,000 services has about 3 MiB


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value and its location.

    Attributes:
        raw: Value in JSON.
        location: File and keys that lead to the value.
    """

    raw: object
    location: str

    def error(self, message: str, code: DiagnosticCode) -> InvalidFileError:
        """Return an error with the location of the value."""
        return InvalidFileError(f"{self.location}: {message}", code=code)

    def _wrong_type(self, expected: str) -> InvalidFileError:
        message = f"expected {expected}, got {self._shown()}"
        return self.error(message, DiagnosticCode.WRONG_TYPE)

    @property
    def is_missing(self) -> bool:
        """Return True if there is no value."""
        return self.raw is None

    @property
    def is_true(self) -> bool:
        """Return True if Perl considers the value true."""
        return self.raw not in (None, "", "0", 0, False)

    def text(self) -> str:
        """Return the value as a string."""
        if isinstance(self.raw, bool) or not isinstance(self.raw, str | int | float):
            raise self._wrong_type("a string")
        return str(self.raw)

    def number(self) -> float:
        """Return the value as a number."""
        if not isinstance(self.raw, bool) and isinstance(self.raw, str | int | float):
            try:
                return float(self.raw)
            except (ValueError, OverflowError):
                pass
        raise self._wrong_type("a number")

    def integer(self) -> int:
        """Return the value as an integer, without its fractional part."""
        try:
            return int(self.number())
        except (ValueError, OverflowError) as error:
            message = f"expected a finite number, got {self._shown()}"
            raise self.error(message, DiagnosticCode.OUT_OF_RANGE) from error

    def items(self) -> Iterator[tuple[str, LocatedValue]]:
        """Yield the members of an object; none if the value is missing."""
        if self.is_missing:
            return
        if not isinstance(self.raw, dict):
            raise self._wrong_type("an object")
        for key, raw in self.raw.items():
            yield key, LocatedValue(raw, f"{self.location}: {key}")

    def entries(self) -> Iterator[LocatedValue]:
        """Yield the entries of a list."""
        if not isinstance(self.raw, list):
            raise self._wrong_type("a list")
        for number, raw in enumerate(self.raw, start=1):
            yield LocatedValue(raw, f"{self.location}: entry {number}")

    def get(self, key: str) -> LocatedValue:
        """Return the member *key* of an object, which may be missing."""
        return dict(self.items()).get(
            key, LocatedValue(None, f"{self.location}: {key}")
        )

    def _shown(self) -> str:
        shown = json.dumps(self.raw)
        return shown if len(shown) < 40 else f"{shown[:36]}..."


def read_value(path: Path) -> LocatedValue | None:
    """Return the value of the JSON file *path*; None if there is no such file.

    Raises:
        InvalidFileError: It cannot be read or is not JSON.
    """
    text = read_text(path)
    if text is None:
        return None
    try:
        return LocatedValue(json.loads(text), str(path))
    except json.JSONDecodeError as error:
        raise InvalidFileError(
            f"{path}: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except RecursionError as error:
        raise InvalidFileError(f"{path}: nested too deeply") from error
    except ValueError as error:  # an integer with thousands of digits
        raise InvalidFileError(f"{path}: number too long") from error


def read_text(path: Path) -> str | None:
    """Return the text of *path*; None if there is no such file.

    Raises:
        InvalidFileError: It cannot be read.
    """
    try:
        return read_regular(path, MAX_FILE_SIZE).decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidFileError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{path}: not UTF-8 at byte {error.start}") from error
