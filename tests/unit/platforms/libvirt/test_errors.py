"""libvirt's errors, as recorded from libvirt 9.0, and what they come to."""

from __future__ import annotations

import pytest

from opendrs.errors import (
    ConfigurationError,
    OpenDRSError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.platforms.libvirt.errors import (
    ErrorCode,
    ErrorDomain,
    LibvirtError,
    LibvirtPermissionError,
    migration_error_text,
    opening_error,
    platform_error,
)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (LibvirtError(1, 45, -1, "internal error: Unable to parse URI x"), "uri"),
        (
            LibvirtError(
                8,
                13,
                -1,
                "invalid argument: remote_open: transport in URL not recognised",
            ),
            "uri",
        ),
        (LibvirtError(5, 0, -1, "no connection driver available"), "uri"),
        (
            LibvirtError(
                38, 7, 111, "unable to connect to server at 'h1:16509': refused"
            ),
            "away",
        ),
        (
            LibvirtError(38, 7, 2, "Failed to connect socket to '/run/x': No such"),
            "away",
        ),
        (
            LibvirtError(
                38,
                7,
                104,
                "Cannot recv data: ssh: Could not resolve hostname: Connection reset",
            ),
            "away",
        ),
        (LibvirtError(1, 7, -1, "internal error: client socket is closed"), "away"),
        (
            LibvirtError(
                38, 7, 13, "Failed to connect socket to '/x': Permission denied"
            ),
            "refused",
        ),
        (
            LibvirtError(
                38,
                7,
                104,
                "Cannot recv data: Permission denied (publickey).: Connection reset",
            ),
            "refused",
        ),
        (LibvirtError(45, 7, -1, "authentication failed"), "refused"),
        (LibvirtError(88, 55, -1, "access denied"), "refused"),
        (LibvirtError(29, 10, -1, "operation forbidden: read only access"), "refused"),
    ],
)
def test_errors_of_opening_are_classified(failure: LibvirtError, kind: str) -> None:
    kinds: dict[str, type[OpenDRSError]] = {
        "uri": ConfigurationError,
        "away": PlatformUnavailableError,
        "refused": LibvirtPermissionError,
    }

    error = opening_error("h1", failure)

    assert type(error) is kinds[kind]
    assert "h1" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (LibvirtError(3, 0, -1, "this function is not supported"), UnsupportedError),
        (LibvirtError(84, 10, -1, "Operation not supported"), UnsupportedError),
        (LibvirtError(68, 10, -1, "cannot acquire state change lock"), "away"),
        (LibvirtError(9, 10, -1, "operation failed: something else"), PlatformError),
    ],
)
def test_error_keeps_the_message_of_libvirt(
    failure: LibvirtError, kind: type[PlatformError] | str
) -> None:
    error = platform_error("h1", failure)

    assert type(error) is (PlatformUnavailableError if kind == "away" else kind)
    assert failure.message in str(error)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "operation failed: domain 'ab' already exists with uuid fccb3e69",
            "another guest named vm is on h2",
        ),
        (
            "unable to connect to server at '10.78.0.9:16509': No route to host",
            "h2 is unreachable from h1",
        ),
        (
            "internal error: client socket is closed",
            "the connection to h2 was lost, or h2 failed",
        ),
        (
            (
                "operation failed: job 'migration out' failed: Unable to write to "
                "socket: Bad file descriptor"
            ),
            "the connection to h2 was lost, or h2 failed",
        ),
        (
            "operation aborted: job 'migration out' canceled by client",
            "aborted",
        ),
        (
            (
                "Requested operation is not valid: another migration job is "
                "already running for domain 'vm1'"
            ),
            "another migration is in progress",
        ),
        (
            "internal error: Attempt to migrate guest to the same host 7cc71db1",
            "h1 and h2 are the same host",
        ),
        (
            "Unsafe migration: Migration without shared storage is unsafe",
            (
                "libvirt cannot verify that its disks are on shared storage; if "
                "they are, set unsafe"
            ),
        ),
    ],
)
def test_migration_error_is_explained(message: str, words: str) -> None:
    failure = LibvirtError(9, 10, -1, message)

    assert (
        migration_error_text(failure, "vm", "h1", "h2")
        == f"{words} (libvirt: {message})"
    )


def test_unknown_message_is_repeated_on_one_line() -> None:
    failure = LibvirtError(9, 10, -1, "something\n  unheard of")

    assert migration_error_text(failure, "vm", "h1", "h2") == "something unheard of"


def test_braces_in_messages_are_kept() -> None:
    failure = LibvirtError(9, 10, -1, "{target} already exists with uuid {0}")

    assert migration_error_text(failure, "vm", "h1", "h2").endswith(
        "({target} already exists with uuid {0})".replace("(", "(libvirt: ")
    )


def test_the_numbers_are_libvirts_own() -> None:
    libvirt = pytest.importorskip("libvirt")

    for code in ErrorCode:
        assert getattr(libvirt, f"VIR_ERR_{code.name}") == code
    for source in ErrorDomain:
        assert getattr(libvirt, f"VIR_FROM_{source.name}") == source
