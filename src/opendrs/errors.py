"""The errors of opendrs.

* OpenDRSError
  - ConfigurationError          the operator can mend it; found before the first cycle
    . UnknownPolicyError
    . UnknownPlatformError
    . InvalidSettingError
    . InvalidFileError
  - ModelError                  a snapshot or a plan that cannot exist
    . UnknownNodeError
    . UnknownGuestError
  - PlatformError               a hypervisor did not do what was asked
    . PlatformUnavailableError  worth trying again
    . PermissionDeniedError     not worth trying again
    . UnsupportedError          this platform cannot do that at all
    . UnexpectedResponseError   it answered, and not in a form we know
  - StoreError                  the record could not be kept
    . LeaseLostError            another controller is now in charge

A refused step, rules that leave no room, and an empty plan are results, not errors.
"""

from __future__ import annotations


class OpenDRSError(Exception):
    """Base of every error opendrs raises on purpose."""


class ConfigurationError(OpenDRSError):
    """What the operator wrote cannot be used; the message says what to mend.

    Attributes:
        messages: Everything that is wrong, one line each.
    """

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages


class UnknownPolicyError(ConfigurationError):
    """No policy of that name exists."""


class UnknownPlatformError(ConfigurationError):
    """No platform of that name is configured."""


class InvalidSettingError(ConfigurationError):
    """A setting does not exist, or its value is out of range."""


class InvalidFileError(ConfigurationError):
    """A file cannot be read, or does not hold what it should."""


class ModelError(OpenDRSError, ValueError):
    """A snapshot or a plan describes a cluster that cannot exist."""


class UnknownNodeError(ModelError):
    """No node of that name is in the snapshot."""


class UnknownGuestError(ModelError):
    """No guest of that name is in the snapshot."""


class PlatformError(OpenDRSError):
    """A hypervisor did not do what was asked."""


class PlatformUnavailableError(PlatformError):
    """The hypervisor cannot be reached now; worth trying again.

    Attributes:
        summary: What could not be done.
        details: What each host says, one line each.
    """

    def __init__(self, summary: str, *details: str) -> None:
        super().__init__(f"{summary}: {'; '.join(details)}" if details else summary)
        self.summary = summary
        self.details = details


class PermissionDeniedError(PlatformError):
    """The hypervisor refused for want of permission."""


class UnsupportedError(PlatformError):
    """This platform cannot do that at all."""


class UnexpectedResponseError(PlatformError):
    """The hypervisor answered in a form opendrs does not know."""


class StoreError(OpenDRSError):
    """The record could not be kept."""


class LeaseLostError(StoreError):
    """Another controller is in charge of this cluster."""
