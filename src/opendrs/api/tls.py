"""TLS context and listening socket of the API, and a check of its credentials."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator

from opendrs.api.tokens import read_tokens
from opendrs.config import display_path
from opendrs.config.regular_files import require_regular
from opendrs.config.settings import ApiSettings
from opendrs.errors import ConfigurationError

_BACKLOG = 128


def tls_context(settings: ApiSettings) -> ssl.SSLContext:
    """Return how to speak TLS, 1.2 or newer, with the controller's certificate.

    Raises:
        ConfigurationError: Certificate or key cannot be used.
    """
    unreadable = [
        *_unreadable_file("certificate", settings),
        *_unreadable_file("key", settings),
    ]
    if unreadable:
        raise ConfigurationError(*unreadable)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key, _reject_password)
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"api.certificate, api.key: {display_path(settings.certificate)} "
            f"and {display_path(settings.key)} cannot be used: {_tls_error_detail(error)}"
        ) from error
    return context


def _unreadable_file(name: str, settings: ApiSettings) -> Iterator[str]:
    path = getattr(settings, name)
    try:
        require_regular(path)
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else error
        yield f"api.{name}: cannot read {display_path(path)}: {detail}"


def _reject_password() -> str:
    raise ConfigurationError(
        "api.key: the key is protected by a password, and there is nobody to ask for it"
    )


def _tls_error_detail(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    return "expected a certificate and its private key in PEM"


def listening_socket(settings: ApiSettings) -> socket.socket:
    """Return a socket that is bound to the address and listens.

    Raises:
        ConfigurationError: The address is none of this machine, or is in use, or
            may not be used.
    """
    host, port = settings.address
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"api.listen: cannot listen on {settings.listen}: {_socket_error_detail(error)}"
        ) from error


def _socket_error_detail(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "somebody else does already"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return "there is no such address"
    return os.strerror(error.errno)


def check_credentials(settings: ApiSettings) -> None:
    """Check the files with certificate, key and tokens.

    Raises:
        ConfigurationError: They cannot be used; with all complaints.
    """
    problems: list[str] = []
    try:
        read_tokens(settings.tokens)
    except ConfigurationError as error:
        problems += error.messages
    try:
        tls_context(settings)
    except ConfigurationError as error:
        problems += error.messages
    if problems:
        raise ConfigurationError(*problems)
