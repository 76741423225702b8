"""libvirt's errors, as recorded from libvirt 9.0, and what they come to."""

from __future__ import annotations

import pytest

from opendrs.errors import (
    ConfigurationError,
    OpenDRSError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.platforms.libvirt.failures import (
    Code,
    Failure,
    Source,
    cause,
    opening_error,
    platform_error,
)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure(1, 45, -1, "internal error: Unable to parse URI x"), "uri"),
        (
            Failure(
                8,
                13,
                -1,
                "invalid argument: remote_open: transport in URL not recognised",
            ),
            "uri",
        ),
        (Failure(5, 0, -1, "no connection driver available"), "uri"),
        (
            Failure(38, 7, 111, "unable to connect to server at 'h1:16509': refused"),
            "away",
        ),
        (Failure(38, 7, 2, "Failed to connect socket to '/run/x': No such"), "away"),
        (
            Failure(
                38,
                7,
                104,
                "Cannot recv data: ssh: Could not resolve hostname: Connection reset",
            ),
            "away",
        ),
        (Failure(1, 7, -1, "internal error: client socket is closed"), "away"),
        (
            Failure(38, 7, 13, "Failed to connect socket to '/x': Permission denied"),
            "refused",
        ),
        (
            Failure(
                38,
                7,
                104,
                "Cannot recv data: Permission denied (publickey).: Connection reset",
            ),
            "refused",
        ),
        (Failure(45, 7, -1, "authentication failed"), "refused"),
        (Failure(88, 55, -1, "access denied"), "refused"),
        (Failure(29, 10, -1, "operation forbidden: read only access"), "refused"),
    ],
)
def test_tells_a_wrong_uri_from_a_host_that_is_away_or_refuses(
    failure: Failure, kind: str
) -> None:
    kinds: dict[str, type[OpenDRSError]] = {
        "uri": ConfigurationError,
        "away": PlatformUnavailableError,
        "refused": PermissionDeniedError,
    }

    error = opening_error("h1", failure)

    assert type(error) is kinds[kind]
    assert "h1" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure(3, 0, -1, "this function is not supported"), UnsupportedError),
        (Failure(84, 10, -1, "Operation not supported"), UnsupportedError),
        (Failure(68, 10, -1, "cannot acquire state change lock"), "away"),
        (Failure(9, 10, -1, "operation failed: something else"), PlatformError),
    ],
)
def test_keeps_the_platforms_words(
    failure: Failure, kind: type[PlatformError] | str
) -> None:
    error = platform_error("h1", failure)

    assert type(error) is (PlatformUnavailableError if kind == "away" else kind)
    assert failure.message in str(error)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "operation failed: domain 'ab' already exists with uuid fccb3e69",
            "another guest called vm is on h2",
        ),
        (
            "unable to connect to server at '10.78.0.9:16509': No route to host",
            "h2 cannot be reached from h1",
        ),
        (
            "internal error: client socket is closed",
            "the connection to h2 broke, or h2 failed",
        ),
        (
            (
                "operation failed: job 'migration out' failed: Unable to write to "
                "socket: Bad file descriptor"
            ),
            "the connection to h2 broke, or h2 failed",
        ),
        (
            "operation aborted: job 'migration out' canceled by client",
            "it was given up",
        ),
        (
            (
                "Requested operation is not valid: another migration job is "
                "already running for domain 'vm1'"
            ),
            "it is being migrated already",
        ),
        (
            "internal error: Attempt to migrate guest to the same host 7cc71db1",
            "h1 and h2 are one and the same host",
        ),
        (
            "Unsafe migration: Migration without shared storage is unsafe",
            (
                "libvirt cannot see that its disks are shared; where they are, allow "
                "it with the setting unsafe"
            ),
        ),
    ],
)
def test_says_in_plain_words_why_a_migration_failed(message: str, words: str) -> None:
    failure = Failure(9, 10, -1, message)

    assert cause(failure, "vm", "h1", "h2") == f"{words} (libvirt: {message})"


def test_repeats_words_it_does_not_know_on_one_line() -> None:
    failure = Failure(9, 10, -1, "something\n  unheard of")

    assert cause(failure, "vm", "h1", "h2") == "something unheard of"


def test_braces_in_libvirts_words_do_no_harm() -> None:
    failure = Failure(9, 10, -1, "{target} already exists with uuid {0}")

    assert cause(failure, "vm", "h1", "h2").endswith(
        "({target} already exists with uuid {0})".replace("(", "(libvirt: ")
    )


def test_the_numbers_are_libvirts_own() -> None:
    libvirt = pytest.importorskip("libvirt")

    for code in Code:
        assert getattr(libvirt, f"VIR_ERR_{code.name}") == code
    for source in Source:
        assert getattr(libvirt, f"VIR_FROM_{source.name}") == source
