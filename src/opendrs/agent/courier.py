"""Carrying requests to the controller, over TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from opendrs.agent.controller import BusyError, RefusedError
from opendrs.controller.masking import MASK, masked_in_logs
from opendrs.controller.requests.wire import (
    REQUEST,
    REQUESTS,
    SAMPLES,
    GuestSamples,
    Problem,
    Request,
    Standing,
)
from opendrs.controller.settings import AgentSettings
from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.file import shown_path
from opendrs.platforms.ordinary_files import SMALL, read_ordinary, require_ordinary

LONGEST_TOKEN = 4096  # characters
LONGEST_PAUSE = 30.0  # seconds between two attempts
_TEMPORARY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_MOST_DIGITS = 9  # of seconds, which are limited anyway
AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Courier:
    """A connection to the controller; used in a `with` statement.

    Args:
        settings: Where it is, and how it knows this agent.
        sleep: Waits so many seconds between two attempts.

    Raises:
        ConfigurationError: The token or the certificate cannot be read.
    """

    def __init__(self, settings: AgentSettings, sleep: Callable[[float], None]) -> None:
        self._where = settings.controller
        self._sleep = sleep
        self._token = _token(settings.token_file)
        self._stack = ExitStack()
        self._client = httpx.Client(
            base_url=settings.controller,
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=settings.timeout,
            verify=_trust(settings.ca),
            trust_env=False,  # a proxy or a .netrc must not see the token
        )
        self._stack.callback(self._client.close)

    def __enter__(self) -> Self:
        self._stack.enter_context(masked_in_logs(self._without_token))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def deliver(self, request: Request, patience: float) -> Standing:
        """Send *request*, again and again while the controller does not answer.

        Args:
            request: What to send; a request that came through and was not
                answered is the same one when it is sent again.
            patience: Seconds after which it is given up.

        Raises:
            RefusedError: The controller does not take it: it is stale, say.
            PermissionDeniedError: The token is not that of this node.
            PlatformUnavailableError: The controller did not answer.
            UnexpectedResponseError: What answered is not a controller.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(PlatformUnavailableError),
            wait=_Wait(longest=min(LONGEST_PAUSE, patience / 4)),
            stop=stop_after_delay(patience),
            sleep=self._sleep,
            reraise=True,
        )
        body = request.model_dump_json()
        standing: Standing = retrying(self._asked, lambda: self._post(body), Standing)
        return standing

    def standing(self, request: Request) -> Standing | None:
        """Return what became of *request*, or None if the controller has no trace.

        Raises:
            PlatformError: The controller does not answer, or not as it should.
        """
        path = REQUEST.replace("{id}", str(request.id))
        return self._known(path, Standing)

    def samples(self, guest: str) -> GuestSamples | None:
        """Return what *guest* used where it was before, or None if nobody knows.

        Raises:
            PlatformError: The controller does not answer, or not as it should.
        """
        path = SAMPLES.replace("{guest}", quote(guest, safe=""))
        return self._known(path, GuestSamples)

    def _without_token(self, text: str) -> str:
        return text.replace(self._token, MASK)

    def _known(self, path: str, form: type[AnswerT]) -> AnswerT | None:
        try:
            return self._asked(lambda: self._client.get(path), form)
        except RefusedError:
            return None

    def _post(self, body: str) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        return self._client.post(REQUESTS, content=body, headers=headers)

    def _asked(self, ask: Callable[[], httpx.Response], form: type[AnswerT]) -> AnswerT:
        try:
            answer = ask()
        except httpx.HTTPError as error:
            raise PlatformUnavailableError(
                f"{self._where} cannot be reached: {error or type(error).__name__}"
            ) from None  # its request holds the token
        if answer.is_success:
            return _read(answer, form, self._where)
        raise _refusal(answer, self._where)


class _Wait(wait_random_exponential):
    """Wait longer after each attempt, and as long as the controller asks for.

    A part of it is random, so that agents which were rejected together do not come
    back together.
    """

    def __init__(self, longest: float) -> None:
        super().__init__(max=longest)
        self._longest = longest

    def __call__(self, retry_state: RetryCallState) -> float:
        pause = super().__call__(retry_state)
        error = retry_state.outcome and retry_state.outcome.exception()
        if isinstance(error, BusyError):
            pause += min(error.retry_after, self._longest)
        return pause


def _read(answer: httpx.Response, form: type[AnswerT], where: str) -> AnswerT:
    try:
        return form.model_validate_json(answer.content)
    except ValidationError:
        raise UnexpectedResponseError(
            f"{where} answered {answer.status_code}, and not as a controller does"
        ) from None


def _refusal(answer: httpx.Response, where: str) -> PlatformError:
    try:
        problem = Problem.model_validate_json(answer.content)
    except ValidationError:
        problem = Problem(detail=answer.reason_phrase)
    status = answer.status_code
    told = f"{where} answered {status}: {problem.detail}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return PermissionDeniedError(told)
    if answer.is_server_error or status in _TEMPORARY:
        retry_after = answer.headers.get("retry-after", "")
        if retry_after.isdecimal():
            return BusyError(told, float(retry_after[:_MOST_DIGITS]))
        return PlatformUnavailableError(told)
    if answer.is_client_error:
        return RefusedError(told, problem.last_sequence)
    return UnexpectedResponseError(told)


def require_credentials(settings: AgentSettings) -> None:
    """Check the files with the token and the certificate to trust.

    Raises:
        ConfigurationError: They cannot be used; with all complaints.
    """
    complaints: list[str] = []
    for look in (lambda: _token(settings.token_file), lambda: _trust(settings.ca)):
        try:
            look()
        except ConfigurationError as error:
            complaints += error.complaints
    if complaints:
        raise ConfigurationError(*complaints)


def _token(path: Path) -> str:
    try:
        text = read_ordinary(path, SMALL).decode("ascii").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not plain text"
        raise ConfigurationError(
            f"agent.token_file: cannot read {shown_path(path)}: {why}"
        ) from None  # what is in it is nobody's business
    if not text or len(text) > LONGEST_TOKEN or not text.isprintable() or " " in text:
        raise ConfigurationError(
            f"agent.token_file: {shown_path(path)} does not hold one token on one line"
        )
    return text


def _trust(ca: Path | None) -> ssl.SSLContext:
    try:
        if ca is not None:
            require_ordinary(ca)
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:  # ssl.SSLError is one
        assert ca is not None  # noqa: S101 - or there would be no file to fail on
        raise ConfigurationError(
            f"agent.ca: {shown_path(ca)} is not a certificate: "
            f"{error.strerror or error}"
        ) from None
