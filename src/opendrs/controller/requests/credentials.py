"""Whether the files are in order by which agents and controller know each other."""

from __future__ import annotations

from opendrs.controller.requests.settings import RequestSettings
from opendrs.controller.requests.tls import tls_context
from opendrs.controller.requests.tokens import read_tokens
from opendrs.errors import ConfigurationError


def require_credentials(settings: RequestSettings) -> None:
    """Check the files with certificate, key and tokens.

    Raises:
        ConfigurationError: They cannot be used; with all complaints.
    """
    complaints: list[str] = []
    try:
        read_tokens(settings.tokens)
    except ConfigurationError as error:
        complaints += error.complaints
    try:
        tls_context(settings)
    except ConfigurationError as error:
        complaints += error.complaints
    if complaints:
        raise ConfigurationError(*complaints)
