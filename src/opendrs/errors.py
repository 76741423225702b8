"""Errors of opendrs.

* OpenDRSError
  - ConfigurationError          found before the first cycle; the operator can fix it
    . UnknownPolicyError
    . UnknownPlatformError
    . InvalidSettingError
    . InvalidFileError
  - ModelError                  a snapshot or a plan is inconsistent
    . UnknownNodeError
    . UnknownGuestError
  - PlatformError               a platform request failed
    . PlatformUnavailableError  unreachable; retry
    . PermissionDeniedError     do not retry
    . UnsupportedError          the platform does not have the operation
    . UnexpectedResponseError   the response has an unknown format
  - StoreError                  a record could not be read or written
    . LeaseLostError            another controller holds the lease

Rejected steps, contradictory rules and empty plans are results, not errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar


class DiagnosticCode(StrEnum):
    """Code of a diagnostic. The values are stable."""

    UNKNOWN_KEY = "unknown-key"
    """A key, table or setting that does not exist."""
    MISSING_KEY = "missing-key"
    """A required key, column or value is absent."""
    DUPLICATE_KEY = "duplicate-key"
    """A key occurs more than once in one object, or a column in one table."""
    WRONG_TYPE = "wrong-type"
    """A value of another type than expected."""
    OUT_OF_RANGE = "out-of-range"
    """A number or a count outside the allowed range."""
    UNKNOWN_VALUE = "unknown-value"
    """A value that is not one of a closed list."""
    UNKNOWN_NAME = "unknown-name"
    """A reference to a node, guest, policy, platform or driver that does not exist."""
    DUPLICATE_NAME = "duplicate-name"
    """A name or token that must be unique occurs more than once."""
    INVALID_VALUE = "invalid-value"
    """A value that is not valid for another reason, which the message states."""
    INCONSISTENT = "inconsistent"
    """Values that are valid alone but not together."""
    IMPLAUSIBLE = "implausible"
    """An impossible (error) or improbable (warning) number, often in a wrong unit."""
    INCOMPLETE = "incomplete"
    """A value that a plan or a simulation requires is unknown."""
    UNUSABLE_FILE = "unusable-file"
    """A file that cannot be read, parsed or used."""
    UNUSABLE_LIBRARY = "unusable-library"
    """A required library or policy that is not installed or cannot be loaded."""
    SECRET_EXPOSED = "secret-exposed"  # noqa: S105 - a code
    """A secret or the store that other users can access (warning)."""
    NOT_CHECKED = "not-checked"
    """A name that could not be checked (warning)."""


class FailureCode(StrEnum):
    """Code of an error that is not about the input. The values are stable."""

    FAILED = "failed"
    """Another error."""
    PLATFORM_FAILED = "platform-failed"
    """A request to a platform failed."""
    PLATFORM_UNREACHABLE = "platform-unreachable"
    """The platform does not respond. Retry."""
    PERMISSION_DENIED = "permission-denied"
    """The platform rejected the request because a permission is missing."""
    NOT_SUPPORTED = "not-supported"
    """The platform does not have the operation."""
    UNEXPECTED_RESPONSE = "unexpected-response"
    """The platform responded in an unknown format."""
    STORE_FAILED = "store-failed"
    """A record could not be read or written."""
    LEASE_LOST = "lease-lost"
    """Another controller holds the lease of the cluster."""


class OpenDRSError(Exception):
    """Base class of all errors that opendrs raises.

    Attributes:
        code: Code of the errors of the class, for programs.
    """

    code: ClassVar[DiagnosticCode | FailureCode] = FailureCode.FAILED


class ConfigurationError(OpenDRSError):
    """Invalid configuration; the messages say how to fix it.

    Attributes:
        messages: All problems, one line each.
        codes: Code of each message.
    """

    code: ClassVar[DiagnosticCode] = DiagnosticCode.INVALID_VALUE

    def __init__(
        self,
        *messages: str,
        code: DiagnosticCode | Sequence[DiagnosticCode] | None = None,
    ) -> None:
        """Create the error.

        Args:
            messages: All problems, one line each.
            code: Code of all messages, or of each; None for that of the class.
        """
        super().__init__("\n".join(messages))
        self.messages = messages
        if code is None or isinstance(code, DiagnosticCode):
            code = (code or self.code,) * len(messages)
        self.codes = tuple(code)


class UnknownPolicyError(ConfigurationError):
    """Reference to a policy that does not exist."""

    code = DiagnosticCode.UNKNOWN_NAME


class UnknownPlatformError(ConfigurationError):
    """Reference to a platform that is not configured."""

    code = DiagnosticCode.UNKNOWN_NAME


class InvalidSettingError(ConfigurationError):
    """Setting that does not exist, or that has a value out of range."""


class InvalidFileError(ConfigurationError):
    """File that cannot be read, or that has invalid content."""

    code = DiagnosticCode.UNUSABLE_FILE


class ModelError(OpenDRSError, ValueError):
    """Inconsistent snapshot or plan."""

    code = DiagnosticCode.INCONSISTENT


class UnknownNodeError(ModelError):
    """Reference to a node that is not in the snapshot."""

    code = DiagnosticCode.UNKNOWN_NAME


class UnknownGuestError(ModelError):
    """Reference to a guest that is not in the snapshot."""

    code = DiagnosticCode.UNKNOWN_NAME


class PlatformError(OpenDRSError):
    """Failed request to a platform."""

    code = FailureCode.PLATFORM_FAILED


class PlatformUnavailableError(PlatformError):
    """Unreachable platform; the request can be retried.

    Attributes:
        summary: The request that failed.
        details: The error of each host, one line each.
    """

    code = FailureCode.PLATFORM_UNREACHABLE

    def __init__(self, summary: str, *details: str) -> None:
        super().__init__(f"{summary}: {'; '.join(details)}" if details else summary)
        self.summary = summary
        self.details = details


class PermissionDeniedError(PlatformError):
    """Request rejected by the platform because a permission is missing."""

    code = FailureCode.PERMISSION_DENIED


class UnsupportedError(PlatformError):
    """Operation that the platform does not have."""

    code = FailureCode.NOT_SUPPORTED


class UnexpectedResponseError(PlatformError):
    """Response of the platform in an unknown format."""

    code = FailureCode.UNEXPECTED_RESPONSE


class StoreError(OpenDRSError):
    """Failure to read or write a record."""

    code = FailureCode.STORE_FAILED


class LeaseLostError(StoreError):
    """Lease of the cluster held by another controller."""

    code = FailureCode.LEASE_LOST
