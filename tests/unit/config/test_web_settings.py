"""The table [web]."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendrs.config.web_settings import WebSettings
from opendrs.errors import InvalidSettingError

CERTIFICATE, KEY = Path("c.pem"), Path("k.pem")


def test_default_is_loopback_without_certificate() -> None:
    settings = WebSettings()

    assert settings.address == ("127.0.0.1", 8470)
    assert (settings.is_loopback, settings.scheme) == (True, "http")


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:1", "127.8.8.8:1", "localhost:1", "[::1]:1"]
)
def test_loopback_addresses_need_no_certificate(listen: str) -> None:
    assert WebSettings(listen=listen).is_loopback


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:1", "192.0.2.1:443", "[::]:1", "drs.example:443"]
)
def test_other_addresses_need_a_certificate(listen: str) -> None:
    with pytest.raises(InvalidSettingError, match="requires certificate and key"):
        WebSettings(listen=listen)

    secured = WebSettings(listen=listen, certificate=CERTIFICATE, key=KEY)
    assert secured.scheme == "https"


def test_all_problems_are_reported() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        WebSettings(listen="here", key=KEY, session_time=1)

    starts = [message.split(":")[0] for message in caught.value.messages]
    assert starts == ["listen", "certificate, key", "session_time"]
