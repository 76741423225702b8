"""Settings of an Incus cluster: all errors at once, without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opendrs.errors import InvalidSettingError
from opendrs.platforms.incus import IncusSettings

PLAIN: dict[str, Any] = {
    "urls": ("https://10.0.0.1:8443",),
    "certificate": Path("c.crt"),
    "key": Path("c.key"),
    "fingerprint": "0" * 64,
}


def problems_of(**changes: Any) -> list[str]:  # noqa: ANN401
    with pytest.raises(InvalidSettingError) as caught:
        IncusSettings(**{**PLAIN, **changes})
    return [message.partition(":")[0] for message in caught.value.messages]


def test_settings_normalize_urls_and_fingerprint() -> None:
    text = ":".join(["AB"] * 32)

    settings = IncusSettings(**{**PLAIN, "urls": ("https://a/",), "fingerprint": text})

    assert settings.urls == ("https://a",)
    assert settings.fingerprint == "ab" * 32


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        (
            {"urls": ()},
            ["socket, urls", "certificate, key, server_certificate, fingerprint"],
        ),
        ({"socket": Path("/s")}, ["socket, urls"]),
        ({"urls": ("http://a",)}, ["urls"]),
        ({"urls": ("https://a:0",)}, ["urls"]),
        ({"urls": ("https://a/path",)}, ["urls"]),
        ({"urls": ("https://[",)}, ["urls"]),
        ({"certificate": None, "key": None}, ["certificate", "key"]),
        ({"fingerprint": None}, ["server_certificate, fingerprint"]),
        ({"server_certificate": Path("s")}, ["server_certificate, fingerprint"]),
        ({"fingerprint": "ab"}, ["fingerprint"]),
        ({"projects": ("a/b",)}, ["projects"]),
        ({"timeout": 0.0, "sample": -1.0}, ["timeout", "sample"]),
        ({"timeout": float("nan")}, ["timeout"]),
        ({"max_requests": 0}, ["max_requests"]),
    ],
)
def test_invalid_settings_are_reported_together(
    changes: dict[str, Any], keys: list[str]
) -> None:
    assert problems_of(**changes) == keys


def test_password_in_url_is_not_shown() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        IncusSettings(**{**PLAIN, "urls": ("https://me:hidden@a",)})

    assert "hidden" not in str(caught.value)


def test_socket_alone_is_sufficient() -> None:
    assert IncusSettings(socket=Path("/s")).manages("any")


def test_projects_limit_what_is_managed() -> None:
    settings = IncusSettings(socket=Path("/s"), projects=("web",))

    assert (settings.manages("web"), settings.manages("default")) == (True, False)
