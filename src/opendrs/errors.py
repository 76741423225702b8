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


class OpenDRSError(Exception):
    """Base class of all errors that opendrs raises."""


class ConfigurationError(OpenDRSError):
    """Invalid configuration; the messages say how to fix it.

    Attributes:
        messages: All problems, one line each.
    """

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages


class UnknownPolicyError(ConfigurationError):
    """Reference to a policy that does not exist."""


class UnknownPlatformError(ConfigurationError):
    """Reference to a platform that is not configured."""


class InvalidSettingError(ConfigurationError):
    """Setting that does not exist, or that has a value out of range."""


class InvalidFileError(ConfigurationError):
    """File that cannot be read, or that has invalid content."""


class ModelError(OpenDRSError, ValueError):
    """Inconsistent snapshot or plan."""


class UnknownNodeError(ModelError):
    """Reference to a node that is not in the snapshot."""


class UnknownGuestError(ModelError):
    """Reference to a guest that is not in the snapshot."""


class PlatformError(OpenDRSError):
    """Failed request to a platform."""


class PlatformUnavailableError(PlatformError):
    """Unreachable platform; the request can be retried.

    Attributes:
        summary: The request that failed.
        details: The error of each host, one line each.
    """

    def __init__(self, summary: str, *details: str) -> None:
        super().__init__(f"{summary}: {'; '.join(details)}" if details else summary)
        self.summary = summary
        self.details = details


class PermissionDeniedError(PlatformError):
    """Request rejected by the platform because a permission is missing."""


class UnsupportedError(PlatformError):
    """Operation that the platform does not have."""


class UnexpectedResponseError(PlatformError):
    """Response of the platform in an unknown format."""


class StoreError(OpenDRSError):
    """Failure to read or write a record."""


class LeaseLostError(StoreError):
    """Lease of the cluster held by another controller."""
