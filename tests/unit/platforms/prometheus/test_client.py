"""Client of Prometheus: its token."""

from __future__ import annotations

import pytest

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.platforms.prometheus.client import PrometheusClient
from opendrs.platforms.prometheus.settings import PrometheusSettings

SETTINGS = PrometheusSettings(
    url="https://localhost:9",
    exporters=("node",),
    token_env="TOKEN",  # noqa: S106 - a name
)


@pytest.mark.parametrize(
    "token", ["hidden\nx", "hidden x", "hidden\x7f", "hiddené", " "]
)
def test_token_that_no_header_can_have_is_rejected_without_it(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", token)

    with pytest.raises(ConfigurationError) as caught:
        PrometheusClient("platform lab", SETTINGS)

    assert caught.value.codes == (DiagnosticCode.INVALID_VALUE,)
    assert "hidden" not in str(caught.value)


def test_line_end_after_the_token_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hidden\n")

    with PrometheusClient("platform lab", SETTINGS):
        pass
