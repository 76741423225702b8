"""Checks of raised errors by code."""

from __future__ import annotations

from collections.abc import Callable

from opendrs.errors import ConfigurationError, DiagnosticCode


def has_code(code: DiagnosticCode) -> Callable[[ConfigurationError], bool]:
    """Return the check of `pytest.raises` that an error has *code*."""
    return lambda error: code in error.codes
