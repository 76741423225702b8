"""Errors of the Proxmox VE API, classified by status and message.

Source:
    Recorded from pve-http-server of Proxmox VE 9.2. The reason phrase of a response has
    the first line of the message, and the body the whole message; a 401 has no body.
    A node that the asked host cannot reach gives 595 to 599 (AnyEvent::HTTP).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
    UnsupportedError,
)

MAX_MESSAGE = 500  # characters of a message of the API
_PROXY_ERRORS = range(595, 600)
_GATEWAY_ERRORS = (
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
)
_DENIED = re.compile(r"Permission check failed \((?P<path>/[^,)]*), (?P<rest>[^)]*)\)")


class HostUnreachableError(PlatformUnavailableError):
    """API host that no connection could be opened to; nothing was sent."""


class NodeUnavailableError(PlatformUnavailableError):
    """Node that the API host cannot reach, or that does not answer in time."""


class LoginRejectedError(PermissionDeniedError):
    """Token, ticket or password that the API does not accept."""


class ApiRequestError(PlatformError):
    """Request that the API rejects, with its reason.

    Attributes:
        status: The HTTP status, 400 or 500.
        reason: The message of the API.
        parameters: The message for each invalid parameter.
    """

    def __init__(
        self, request: str, status: int, reason: str, parameters: Mapping[str, str]
    ) -> None:
        super().__init__(f"{request}: {reason}")
        self.status = status
        self.reason = reason
        self.parameters = dict(parameters)


class MissingPrivilegeError(PermissionDeniedError):
    """Request that needs a privilege.

    Attributes:
        path: The path that the privilege is needed on; empty if not reported.
        privileges: The privileges as the API reports them.
    """

    def __init__(self, message: str, path: str, privileges: str) -> None:
        super().__init__(message)
        self.path = path
        self.privileges = privileges


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An HTTP response of the API.

    Attributes:
        status: The HTTP status.
        reason: The reason phrase.
        content: The complete body.
    """

    status: int
    reason: str
    content: bytes


def answer_data(request: str, answer: ApiAnswer) -> object:
    """Return the value of `data` of a successful answer.

    Args:
        request: Host, method and path, for messages.
        answer: The answer.

    Raises:
        PlatformError: The answer is an error, or has an unknown form.
    """
    if answer.status != HTTPStatus.OK:
        raise answer_error(request, answer)
    document = _json_object(answer.content)
    if document is None or "data" not in document:
        raise UnexpectedResponseError(f"{request}: response is not that of the API")
    return document["data"]


def answer_error(request: str, answer: ApiAnswer) -> PlatformError:
    """Return the error for an answer that is not successful."""
    status, (reason, parameters) = answer.status, _error_message(answer)
    message = f"{request}: {status} {reason}"
    error: PlatformError = UnexpectedResponseError(message)
    if status == HTTPStatus.UNAUTHORIZED:
        error = LoginRejectedError(
            f"{message}; check token or user, its expiry and that it is enabled"
        )
    elif status == HTTPStatus.FORBIDDEN:
        error = _missing_privilege(message, reason)
    elif status == HTTPStatus.NOT_IMPLEMENTED:
        error = UnsupportedError(message)
    elif status in _PROXY_ERRORS:
        error = NodeUnavailableError(message)
    elif status in _GATEWAY_ERRORS or "no quorum" in reason:
        error = PlatformUnavailableError(message)
    elif status in (HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR):
        error = ApiRequestError(request, status, reason, parameters)
    return error


def is_unknown_task(error: PlatformError) -> bool:
    """Return True if *error* says that a task does not exist on the node."""
    return (
        isinstance(error, ApiRequestError)
        and error.parameters.get("upid") == "no such task"
    )


def _missing_privilege(message: str, reason: str) -> MissingPrivilegeError:
    match = _DENIED.search(reason)
    if match is None:
        return MissingPrivilegeError(message, "", "")
    return MissingPrivilegeError(message, match["path"], match["rest"].strip())


def _error_message(answer: ApiAnswer) -> tuple[str, dict[str, str]]:
    document = _json_object(answer.content) or {}
    message = document.get("message")
    reason = message if isinstance(message, str) and message else answer.reason
    errors = document.get("errors")
    parameters = (
        {str(name): _single_line(str(text)) for name, text in errors.items()}
        if isinstance(errors, dict)
        else {}
    )
    details = "; ".join(f"{name}: {text}" for name, text in parameters.items())
    line = _single_line(f"{reason} {details}")
    return line[:MAX_MESSAGE], parameters


def _json_object(content: bytes) -> dict[str, object] | None:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _single_line(text: str) -> str:
    return " ".join(text.split())
