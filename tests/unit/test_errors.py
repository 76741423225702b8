"""Hierarchy of errors."""

from __future__ import annotations

import pickle

import pytest

from opendrs import errors
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    FailureCode,
    InvalidFileError,
    InvalidSettingError,
    LeaseLostError,
    ModelError,
    OpenDRSError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    StoreError,
    UnexpectedResponseError,
    UnknownGuestError,
    UnknownNodeError,
    UnknownPlatformError,
    UnknownPolicyError,
    UnsupportedError,
)

BRANCHES: dict[type[OpenDRSError], set[type[OpenDRSError]]] = {
    ConfigurationError: {
        UnknownPolicyError,
        UnknownPlatformError,
        InvalidSettingError,
        InvalidFileError,
    },
    ModelError: {UnknownNodeError, UnknownGuestError},
    PlatformError: {
        PlatformUnavailableError,
        PermissionDeniedError,
        UnsupportedError,
        UnexpectedResponseError,
    },
    StoreError: {LeaseLostError},
}


@pytest.mark.parametrize("branch", BRANCHES)
def test_every_branch_holds_its_errors(branch: type[OpenDRSError]) -> None:
    assert BRANCHES[branch] <= set(branch.__subclasses__())
    assert issubclass(branch, OpenDRSError)


def test_every_error_of_the_house_has_one_base() -> None:
    found = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, Exception)
    ]

    assert all(issubclass(each, OpenDRSError) for each in found)


def test_a_cluster_that_cannot_exist_is_a_bad_value() -> None:
    assert issubclass(ModelError, ValueError)


def test_each_kind_of_failure_has_its_own_code() -> None:
    kinds: list[type[OpenDRSError]] = [
        OpenDRSError,
        *(
            each
            for branch in (PlatformError, StoreError)
            for each in (branch, *BRANCHES[branch])
        ),
    ]

    assert {each.code for each in kinds} == set(FailureCode)
    assert len(kinds) == len(FailureCode)


def test_configuration_error_has_a_code_for_each_message() -> None:
    usual = InvalidFileError("nodes: missing", "rules: not a list")
    same = ConfigurationError("a", "b", code=DiagnosticCode.UNKNOWN_KEY)
    codes = (DiagnosticCode.MISSING_KEY, DiagnosticCode.WRONG_TYPE)
    each = InvalidFileError("nodes: missing", "rules: not a list", code=codes)

    assert usual.codes == (DiagnosticCode.UNUSABLE_FILE,) * 2
    assert same.codes == (DiagnosticCode.UNKNOWN_KEY,) * 2
    assert each.codes == codes
    restored = pickle.loads(pickle.dumps(each))  # noqa: S301 - of this test
    assert restored.messages == each.messages
    assert restored.codes == codes


def test_configuration_error_prints_one_diagnostic_per_line() -> None:
    error = InvalidFileError("nodes: missing", "rules: not a list")

    assert error.messages == ("nodes: missing", "rules: not a list")
    assert str(error) == "nodes: missing\nrules: not a list"
