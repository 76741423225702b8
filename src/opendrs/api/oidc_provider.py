"""Client of an OpenID provider: its description, keys, and token endpoint.

Each request has a limit of time and size. The issuer is requested when a user signs in;
the server starts without it.
"""

from __future__ import annotations

import base64
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

import httpx2

from opendrs.api.problems import ProblemError
from opendrs.api.schema.common import ApiProblem
from opendrs.config.oidc_settings import OidcSettings, is_secure_url
from opendrs.errors import PlatformError
from opendrs.transport.http_json import (
    exchange,
    get_mapping,
    parse_json_body,
    single_line,
)

DISCOVERY_PATH = "/.well-known/openid-configuration"
MAX_RESPONSE = 262_144  # bytes
METADATA_TIME = 600.0  # seconds for which the description and the keys are kept


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """Description of a provider.

    Attributes:
        authorization_endpoint: Address to which browsers are sent.
        token_endpoint: Address that exchanges codes for tokens.
        jwks_uri: Address of its public keys.
        userinfo_endpoint: Address with the claims of a user; None without one.
        secret_in_form: It requires the client secret in the form, not in a header.

    Source:
        OpenID Connect Discovery 1.0, section 3.
    """

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    secret_in_form: bool


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """Response of the token endpoint.

    Attributes:
        id_token: The ID token, not verified.
        access_token: The access token; None without one.
    """

    id_token: str
    access_token: str | None


class OidcProvider:
    """Client of the provider of *settings*. Threads may share it.

    Args:
        settings: Issuer, client and limits.
        secret: The client secret.
        tls: Trusted certificates.
    """

    def __init__(
        self, settings: OidcSettings, secret: str, tls: ssl.SSLContext
    ) -> None:
        self._settings = settings
        self._secret = secret
        self._tls = tls
        self._lock = threading.Lock()
        self._metadata: tuple[float, ProviderMetadata] | None = None
        self._keys: tuple[float, Mapping[str, Any]] | None = None

    def metadata(self) -> ProviderMetadata:
        """Return the description of the provider.

        Raises:
            ProblemError: The issuer is not available, or describes another one.
        """
        with self._lock:
            kept = self._metadata
        if kept is not None and time.monotonic() - kept[0] < METADATA_TIME:
            return kept[1]
        address = f"{self._settings.issuer.removesuffix('/')}{DISCOVERY_PATH}"
        found = self._metadata_from(self._document("GET", address))
        with self._lock:
            self._metadata = time.monotonic(), found
        return found

    def keys(self, *, refresh: bool = False) -> Mapping[str, Any]:
        """Return the public keys of the provider as a JWK set.

        Args:
            refresh: Request them again, because they may have changed.

        Raises:
            ProblemError: The issuer is not available.
        """
        with self._lock:
            kept = self._keys
        if kept is not None and not refresh:
            at, document = kept
            if time.monotonic() - at < METADATA_TIME:
                return document
        found = self._document("GET", self.metadata().jwks_uri)
        with self._lock:
            self._keys = time.monotonic(), found
        return found

    def exchange_code(self, code: str, verifier: str) -> TokenResponse:
        """Exchange *code* for tokens.

        Args:
            code: Authorization code.
            verifier: Code verifier of PKCE (RFC 7636).

        Raises:
            ProblemError: The issuer is not available, or rejects the code.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._settings.redirect_uri,
            "code_verifier": verifier,
        }
        headers, metadata = {}, self.metadata()
        if metadata.secret_in_form:
            form["client_id"] = self._settings.client_id
            form["client_secret"] = self._secret
        else:
            pair = f"{quote_plus(self._settings.client_id)}:{quote_plus(self._secret)}"
            encoded = base64.b64encode(pair.encode()).decode()
            headers["Authorization"] = f"Basic {encoded}"
        document = self._document("POST", metadata.token_endpoint, form, headers)
        id_token, access_token = document.get("id_token"), document.get("access_token")
        if not isinstance(id_token, str):
            raise self._unavailable("the token endpoint returned no ID token")
        return TokenResponse(
            id_token, access_token if isinstance(access_token, str) else None
        )

    def user_info(self, access_token: str) -> Mapping[str, Any]:
        """Return the claims at the userinfo endpoint; empty without one.

        Raises:
            ProblemError: The issuer is not available.
        """
        address = self.metadata().userinfo_endpoint
        is_word = access_token.isascii() and access_token.isprintable()
        if address is None or not is_word:
            return {}
        headers = {"Authorization": f"Bearer {access_token}"}
        return self._document("GET", address, None, headers)

    def _metadata_from(self, document: Mapping[str, Any]) -> ProviderMetadata:
        issuer = document.get("issuer")
        if issuer != self._settings.issuer:
            raise self._unavailable(
                f"expected itself as the issuer, got {single_line(repr(issuer))}"
            )
        addresses = {}
        for name in (
            "authorization_endpoint",
            "token_endpoint",
            "jwks_uri",
            "userinfo_endpoint",
        ):
            address = document.get(name)
            if address is None and name == "userinfo_endpoint":
                continue
            bare = address.partition("?")[0] if isinstance(address, str) else ""
            if not isinstance(address, str) or not is_secure_url(bare):
                raise self._unavailable(
                    f"{name}: expected an https URL, got {single_line(repr(address))}"
                )
            addresses[name] = address
        methods = document.get("token_endpoint_auth_methods_supported")
        listed = methods if isinstance(methods, list) else ["client_secret_basic"]
        return ProviderMetadata(
            authorization_endpoint=addresses["authorization_endpoint"],
            token_endpoint=addresses["token_endpoint"],
            jwks_uri=addresses["jwks_uri"],
            userinfo_endpoint=addresses.get("userinfo_endpoint"),
            secret_in_form="client_secret_basic" not in listed,
        )

    def _document(
        self,
        method: str,
        address: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        """Return the JSON object that the issuer responds with.

        Raises:
            ProblemError: It is not available, or rejects a code (status 400).
        """
        timeout = self._settings.timeout
        try:
            with httpx2.Client(
                verify=self._tls,
                timeout=timeout,
                # A redirect or a proxy could disclose the secret.
                follow_redirects=False,
                trust_env=False,
                headers={"Accept": "application/json", **(headers or {})},
            ) as client:
                response = exchange(
                    client,
                    self._settings.issuer,
                    method,
                    address,
                    timeout=timeout,
                    max_size=MAX_RESPONSE,
                    data=form,
                )
            document = get_mapping(parse_json_body(response))
        except PlatformError as error:
            text = str(error).removeprefix(f"{self._settings.issuer}: ")
            raise self._unavailable(text) from None
        if response.status_code == 200:
            return document
        reason = single_line(str(document.get("error", "no reason")))
        if form is not None and reason == "invalid_grant":
            raise ProblemError(
                ApiProblem.SIGN_IN_REJECTED,
                "the issuer rejects the code: it was used before, or has expired; "
                "sign in again",
            )
        raise self._unavailable(f"status {response.status_code}: {reason}")

    def _unavailable(self, detail: str) -> ProblemError:
        return ProblemError(
            ApiProblem.ISSUER_UNAVAILABLE,
            f"{self._settings.issuer}: {detail}; sign in with a token meanwhile",
            headers={"Retry-After": "5"},
        )
