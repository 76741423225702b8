"""Sign-in by OpenID Connect: the authorization code flow with PKCE.

The page of the dashboard begins a sign-in, sends the browser to the issuer, and
completes the sign-in with the code that the issuer sends back. State, nonce and code
verifier stay in the memory of the server; a cookie binds them to the browser.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from opendrs.api.oidc_claims import (
    OidcUser,
    UnknownKeyError,
    rejected_signature,
    user_of,
    verified_claims,
)
from opendrs.api.oidc_provider import OidcProvider, TokenResponse
from opendrs.api.problems import ProblemError
from opendrs.api.schema.common import ApiProblem
from opendrs.config.oidc_settings import OidcSettings, require_joserfc
from opendrs.ports import Clock
from opendrs.transport.secrets import create_ssl_context, read_secret

PENDING_TIME = 600.0  # seconds in which a user signs in at the issuer
MAX_PENDING = 10_000  # sign-ins that have begun; the oldest are forgotten
MAX_PARALLEL = 4  # requests that wait for the issuer; they occupy a thread each
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingSignIn:
    """A sign-in that has begun.

    Attributes:
        browser: SHA-256 of the cookie of the browser.
        nonce: Value that the ID token must contain.
        verifier: Code verifier of PKCE.
        until: Monotonic time of its end.
    """

    browser: bytes
    nonce: str
    verifier: str
    until: float


@dataclass(frozen=True, slots=True)
class BegunSignIn:
    """A sign-in that was just begun.

    Attributes:
        location: Address at the issuer to which the browser goes.
        cookie: Value of the cookie that binds the sign-in to the browser.
    """

    location: str
    cookie: str


class OidcSignIn:
    """Sign-ins at one issuer. Threads may share it.

    Args:
        settings: Issuer, client and roles.
        clock: The time.

    Raises:
        ConfigurationError: The library, the client secret or the certificates cannot
            be used.
    """

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        require_joserfc()
        prefix = "web.oidc."
        secret = read_secret(
            prefix,
            "client_secret",
            file=settings.client_secret_file,
            variable=settings.client_secret_env,
            entry=settings.client_secret_keyring,
        )
        self.settings = settings
        self._clock = clock
        tls = create_ssl_context(prefix, settings.ca)
        self._provider = OidcProvider(settings, secret, tls)
        self._slots = threading.BoundedSemaphore(MAX_PARALLEL)
        self._lock = threading.Lock()
        self._pending: OrderedDict[str, _PendingSignIn] = OrderedDict()

    def begin(self) -> BegunSignIn:
        """Begin a sign-in.

        Raises:
            ProblemError: The issuer is not available, or too many requests wait for it.
        """
        with self._slot():
            metadata = self._provider.metadata()
        state, cookie = _random(), _random()
        pending = _PendingSignIn(
            browser=_sha256(cookie),
            nonce=_random(),
            verifier=_random(),
            until=self._clock.monotonic() + PENDING_TIME,
        )
        with self._lock:
            self._pending[state] = pending
            while len(self._pending) > MAX_PENDING:
                self._pending.popitem(last=False)
        challenge = base64.urlsafe_b64encode(_sha256(pending.verifier)).rstrip(b"=")
        parameters = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": pending.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        endpoint = metadata.authorization_endpoint
        separator = "&" if "?" in endpoint else "?"
        return BegunSignIn(f"{endpoint}{separator}{urlencode(parameters)}", cookie)

    def complete(self, state: str, code: str, cookie: str | None) -> OidcUser:
        """Complete a sign-in; return the user. Each *state* is accepted once.

        Args:
            state: State of the response of the issuer.
            code: Code of the response of the issuer.
            cookie: Cookie of the browser; None without one.

        Raises:
            ProblemError: The sign-in is unknown or has expired, the issuer is not
                available, or it or its ID token is rejected.
        """
        pending = self._taken(state, cookie)
        with self._slot():
            tokens = self._provider.exchange_code(code, pending.verifier)
            claims = self._claims(tokens.id_token, pending.nonce)
            return user_of(self._with_role_claim(claims, tokens), self.settings)

    def _taken(self, state: str, cookie: str | None) -> _PendingSignIn:
        """Remove and return the sign-in *state* of the browser with *cookie*."""
        with self._lock:
            pending = self._pending.get(state)
            browser = _sha256(cookie or "")
            is_own = pending and hmac.compare_digest(pending.browser, browser)
            if is_own:
                del self._pending[state]
        if pending is None or not is_own or self._clock.monotonic() > pending.until:
            raise ProblemError(
                ApiProblem.SIGN_IN_REJECTED,
                "state: expected a sign-in that this browser has begun at "
                f"{self.settings.address} within {PENDING_TIME / 60:g} minutes, and "
                "has not completed; sign in again",
            )
        return pending

    def _claims(self, id_token: str, nonce: str) -> Mapping[str, Any]:
        """Return the verified claims; request the keys again if they have changed."""
        for refresh in (False, True):
            keys = self._provider.keys(refresh=refresh)
            try:
                return verified_claims(
                    id_token, keys, self.settings, nonce, self._clock.now()
                )
            except UnknownKeyError:
                continue
        raise rejected_signature()

    def _with_role_claim(
        self, claims: Mapping[str, Any], tokens: TokenResponse
    ) -> Mapping[str, Any]:
        """Return *claims*, with those of the userinfo endpoint if the role is missing.

        Raises:
            ProblemError: The issuer is not available, or describes another user.

        Source:
            OpenID Connect Core 1.0, section 5.3.2: the subjects must be equal.
        """
        if self.settings.role_claim in claims or tokens.access_token is None:
            return claims
        further = self._provider.user_info(tokens.access_token)
        if further and further.get("sub") != claims["sub"]:
            raise ProblemError(
                ApiProblem.SIGN_IN_REJECTED,
                "the userinfo endpoint describes another user than the ID token",
            )
        return {**further, **claims}

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Let few requests at the same time wait for the issuer.

        Raises:
            ProblemError: Too many do.
        """
        if not self._slots.acquire(blocking=False):
            raise ProblemError(
                ApiProblem.RATE_LIMITED,
                f"{MAX_PARALLEL} requests already wait for the issuer; retry in 1 s",
                headers={"Retry-After": "1"},
            )
        try:
            yield
        finally:
            self._slots.release()


def _random() -> str:
    return secrets.token_urlsafe(_RANDOM_BYTES)


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
