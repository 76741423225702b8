"""The controller's side of TLS, and the address it listens on."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator

from opendrs.controller.requests.settings import RequestSettings
from opendrs.errors import ConfigurationError
from opendrs.platforms.file import shown_path
from opendrs.platforms.ordinary_files import require_ordinary

_BACKLOG = 128


def tls_context(settings: RequestSettings) -> ssl.SSLContext:
    """Return how to speak TLS, 1.2 or newer, with the controller's certificate.

    Raises:
        ConfigurationError: Certificate or key cannot be used.
    """
    unreadable = [*_unreadable("certificate", settings), *_unreadable("key", settings)]
    if unreadable:
        raise ConfigurationError(*unreadable)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key, _no_password)
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"requests.certificate, requests.key: {shown_path(settings.certificate)} "
            f"and {shown_path(settings.key)} cannot be used: {_why(error)}"
        ) from error
    return context


def _unreadable(name: str, settings: RequestSettings) -> Iterator[str]:
    path = getattr(settings, name)
    try:
        require_ordinary(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        yield f"requests.{name}: cannot read {shown_path(path)}: {why}"


def _no_password() -> str:
    raise ConfigurationError(
        "requests.key: the key is protected by a password, and there is nobody to ask "
        "for it"
    )


def _why(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    return "expected a certificate and its private key in PEM"


def listening_socket(settings: RequestSettings) -> socket.socket:
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
            f"requests.listen: cannot listen on {settings.listen}: {_cause(error)}"
        ) from error


def _cause(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "somebody else does already"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return "there is no such address"
    return os.strerror(error.errno)
