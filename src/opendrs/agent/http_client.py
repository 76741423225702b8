"""HTTP client of the controller API, with retries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ValidationError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from opendrs.config import run_checks
from opendrs.config.api_schema import (
    SAMPLES_PATH,
    GuestSamples,
    ReceivedProblem,
    RequestBody,
    RequestStatus,
    request_path,
)
from opendrs.config.settings import AgentSettings
from opendrs.controller.events import MASK, mask_logs
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.transport.secrets import create_ssl_context, is_one_word, read_secret

_SECTION = "agent."  # of the configuration, for messages
MAX_TOKEN_LENGTH = 4096  # characters
MAX_RETRY_DELAY = 30.0  # seconds between two attempts
_TEMPORARY_STATUS = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_MAX_DIGITS = 9  # of Retry-After in seconds, which is limited by MAX_RETRY_DELAY
ResponseT = TypeVar("ResponseT", bound=BaseModel)


class ControllerClient:
    """HTTP client of the controller API; used in a `with` statement.

    Args:
        settings: Address, token and certificate.
        sleep: Function that sleeps for some seconds between two attempts.

    Raises:
        ConfigurationError: The token or the certificate cannot be read.
    """

    def __init__(self, settings: AgentSettings, sleep: Callable[[float], None]) -> None:
        self._address = settings.controller
        self._sleep = sleep
        self._token = _read_token(settings.token_file)
        self._stack = ExitStack()
        self._client = httpx2.Client(
            base_url=settings.controller,
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=settings.timeout,
            verify=create_ssl_context(_SECTION, settings.ca),
            trust_env=False,  # a proxy or a .netrc must not see the token
        )
        self._stack.callback(self._client.close)

    def __enter__(self) -> Self:
        self._stack.enter_context(mask_logs(self._mask_token))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def submit(self, request: RequestBody, timeout: float) -> RequestStatus:
        """Send *request*; retry while the controller is unreachable or busy.

        Args:
            request: The request. It can be repeated safely: the controller accepts
                each id once.
            timeout: Seconds after which no attempt is started.

        Raises:
            RequestRejectedError: The controller rejects the request, for example
                because it is stale.
            PermissionDeniedError: The token is not that of this node.
            PlatformUnavailableError: The controller is unreachable or busy.
            UnexpectedResponseError: The response is not that of a controller.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(PlatformUnavailableError),
            wait=_RetryWait(max_delay=min(MAX_RETRY_DELAY, timeout / 4)),
            stop=stop_after_delay(timeout),
            sleep=self._sleep,
            reraise=True,
        )
        path, body = request_path(request.id), request.model_dump_json()
        status: RequestStatus = retrying(
            self._request, lambda: self._put(path, body), RequestStatus
        )
        return status

    def get_status(self, request: RequestBody) -> RequestStatus | None:
        """Return the status of *request*; None if the controller does not know it.

        Raises:
            PlatformError: The controller is unreachable, or the response is invalid.
        """
        return self._get(request_path(request.id), RequestStatus)

    def get_samples(self, guest: str) -> GuestSamples | None:
        """Return the samples of *guest* from its previous node; None if unknown.

        Raises:
            PlatformError: The controller is unreachable, or the response is invalid.
        """
        path = SAMPLES_PATH.replace("{guest}", quote(guest, safe=""))
        return self._get(path, GuestSamples)

    def _mask_token(self, text: str) -> str:
        return text.replace(self._token, MASK)

    def _get(self, path: str, model: type[ResponseT]) -> ResponseT | None:
        try:
            return self._request(lambda: self._client.get(path), model)
        except RequestRejectedError:
            return None

    def _put(self, path: str, body: str) -> httpx2.Response:
        headers = {"Content-Type": "application/json"}
        return self._client.put(path, content=body, headers=headers)

    def _request(
        self, send: Callable[[], httpx2.Response], model: type[ResponseT]
    ) -> ResponseT:
        try:
            response = send()
        except httpx2.HTTPError as error:
            raise PlatformUnavailableError(
                f"{self._address} unreachable: {error or type(error).__name__}"
            ) from None  # the request of the error contains the token
        if response.is_success:
            return _parse_response(response, model, self._address)
        raise _error_from_response(response, self._address)


class _RetryWait(wait_random_exponential):
    """Exponential backoff with a random part, plus the delay the controller requests.

    The random part prevents agents that were rejected together from retrying together.
    """

    def __init__(self, max_delay: float) -> None:
        super().__init__(max=max_delay)
        self._max_delay = max_delay

    def __call__(self, retry_state: RetryCallState) -> float:
        delay = super().__call__(retry_state)
        error = retry_state.outcome and retry_state.outcome.exception()
        if isinstance(error, ControllerBusyError):
            delay += min(error.retry_after, self._max_delay)
        return delay


def _parse_response(
    response: httpx2.Response, model: type[ResponseT], address: str
) -> ResponseT:
    try:
        return model.model_validate_json(response.content)
    except ValidationError:
        raise UnexpectedResponseError(
            f"{address}: response {response.status_code} is not that of a controller"
        ) from None


def _error_from_response(response: httpx2.Response, address: str) -> PlatformError:
    try:
        problem = ReceivedProblem.model_validate_json(response.content)
    except ValidationError:
        problem = ReceivedProblem(detail=response.reason_phrase)
    status = response.status_code
    message = f"{address}: response {status}: {problem.detail}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return PermissionDeniedError(message)
    if response.is_server_error or status in _TEMPORARY_STATUS:
        retry_after = response.headers.get("retry-after", "")
        if retry_after.isdecimal():
            return ControllerBusyError(message, float(retry_after[:_MAX_DIGITS]))
        return PlatformUnavailableError(message)
    if response.is_client_error:
        return RequestRejectedError(message, problem.last_sequence)
    return UnexpectedResponseError(message)


def check_agent_credentials(settings: AgentSettings) -> None:
    """Check the files with the token and the trusted certificate.

    Raises:
        ConfigurationError: A file cannot be used; with all problems.
    """
    run_checks(
        partial(_read_token, settings.token_file),
        partial(create_ssl_context, _SECTION, settings.ca),
    )


def _read_token(path: Path) -> str:
    token = read_secret(_SECTION, "token", file=path).strip()
    if not is_one_word(token) or not 0 < len(token) <= MAX_TOKEN_LENGTH:
        raise ConfigurationError(
            f"{_SECTION}token_file: {path}: expected one token on one line",
            code=DiagnosticCode.INVALID_VALUE,
        )
    return token


class RequestRejectedError(PlatformError):
    """Error: the controller rejects this request; another one may be accepted.

    Attributes:
        last_sequence: Sequence of the last accepted request if that of the rejected
            one is not above it; None otherwise.
    """

    def __init__(self, message: str, last_sequence: int | None = None) -> None:
        super().__init__(message)
        self.last_sequence = last_sequence


class ControllerBusyError(PlatformUnavailableError):
    """Error: the controller is busy with other requests.

    Attributes:
        retry_after: Seconds after which the controller expects a retry.
    """

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ControllerApi(Protocol):
    """API of the controller; every method may raise `PlatformError`."""

    def submit(self, request: RequestBody, timeout: float) -> RequestStatus:
        """Send *request*, with retries for up to *timeout* seconds."""

    def get_status(self, request: RequestBody) -> RequestStatus | None:
        """Return the status of *request*; None if it is unknown."""

    def get_samples(self, guest: str) -> GuestSamples | None:
        """Return the samples of *guest* from its previous node; None if unknown."""
