"""A small OpenID provider on loopback, which issues wrong tokens on request.

It checks what a provider has to check: the client and its secret, the redirect
address, the code verifier, and that a code is used once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "opendrs", "s3cret+/ß"
Claims = dict[str, Any]


class OidcIssuer:
    """A running provider, in a `with` statement.

    Attributes:
        claims: Further claims of the user in the ID token.
        user_info: Claims at the userinfo endpoint.
        change: Function that changes the claims of an ID token before it is signed.
        signs_with: Key that signs ID tokens.
        published: Keys that are published.
        delay: Seconds before each response.
        padding: Bytes that are added to each response.
        named_issuer: Issuer in the description; None for its address.
        methods: Methods of client authentication in the description; None for none.
        requests: Paths of the requests.
        now: Returns the time in seconds.
    """

    def __init__(
        self, now: Callable[[], float], tls: ssl.SSLContext | None = None
    ) -> None:
        self.claims: Claims = {}
        self.user_info: Claims = {}
        self.change: Callable[[Claims], Claims] = lambda claims: claims
        self.signs_with = _key()
        self.published = [self.signs_with]
        self.delay = 0.0
        self.padding = 0
        self.named_issuer: str | None = None
        self.methods: list[str] | None = None
        self.requests: list[str] = []
        self.now = now
        self._codes: dict[str, dict[str, str]] = {}
        self._tokens: set[str] = set()
        self._stopped = threading.Event()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.respond(self, None)

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                form = parse_qs(self.rfile.read(length).decode())
                issuer.respond(self, {name: each[0] for name, each in form.items()})

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        scheme = "http" if tls is None else "https"
        self.address = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Self:
        serve = partial(self._server.serve_forever, 0.01)
        threading.Thread(target=serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop; connections are refused then."""
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def rotate_key(self) -> None:
        """Sign with a new key, and publish it alone."""
        self.signs_with = _key()
        self.published = [self.signs_with]

    def authorize(self, location: str) -> str:
        """Return the address to which the user is sent after the sign-in here."""
        parts = urlsplit(location)
        query = {name: each[0] for name, each in parse_qs(parts.query).items()}
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == (
            f"{self.address}/authorize"
        )
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe()
        self._codes[code] = query
        answer = urlencode({"code": code, "state": query["state"]})
        return f"{query['redirect_uri']}?{answer}"

    def respond(
        self, http: BaseHTTPRequestHandler, form: dict[str, str] | None
    ) -> None:
        """Respond to a request."""
        path = urlsplit(http.path).path
        self.requests.append(path)
        self._stopped.wait(self.delay)
        if path == "/authorize":  # the user of this provider is signed in already
            http.send_response(303)
            http.send_header("Location", self.authorize(f"{self.address}{http.path}"))
            http.send_header("Content-Length", "0")
            http.end_headers()
            return
        status, document = self._answer(path, http.headers["Authorization"], form)
        body = json.dumps(document).encode() + b" " * self.padding
        http.send_response(status)
        http.send_header("Content-Type", "application/json")
        http.send_header("Content-Length", str(len(body)))
        http.end_headers()
        with suppress(ConnectionError):  # the client has closed the connection
            http.wfile.write(body)

    def _answer(
        self, path: str, credentials: str | None, form: dict[str, str] | None
    ) -> tuple[int, Claims]:
        if path == "/.well-known/openid-configuration":
            return 200, self._description()
        if path == "/jwks":
            keys = [each.as_dict(private=False) for each in self.published]
            return 200, {"keys": keys}
        if path == "/token" and form is not None:
            return self._tokens_for(credentials, form)
        if path == "/userinfo":
            known = (credentials or "").removeprefix("Bearer ") in self._tokens
            return (200, self.user_info) if known else (401, {})
        return 404, {}

    def _description(self) -> Claims:
        methods = (
            {}
            if self.methods is None
            else {"token_endpoint_auth_methods_supported": self.methods}
        )
        return {
            "issuer": self.named_issuer or self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/jwks",
            "userinfo_endpoint": f"{self.address}/userinfo",
            **methods,
        }

    def _tokens_for(
        self, credentials: str | None, form: dict[str, str]
    ) -> tuple[int, Claims]:
        if not self._is_client(credentials, form):
            return 401, {"error": "invalid_client"}
        request = self._codes.pop(form["code"], None)
        if request is None or form["redirect_uri"] != request["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if challenge != request["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now, access = int(self.now()), secrets.token_urlsafe()
        self._tokens.add(access)
        claims = {
            "iss": self.address,
            "aud": CLIENT,
            "sub": "u-17",
            "iat": now,
            "exp": now + 300,
            "nonce": request["nonce"],
            **self.claims,
        }
        header = {"alg": "RS256", "kid": self.signs_with.kid}
        token = jwt.encode(header, self.change(claims), self.signs_with)
        return 200, {"id_token": token, "access_token": access, "token_type": "Bearer"}

    def _is_client(self, credentials: str | None, form: dict[str, str]) -> bool:
        """Return True if the client has sent its secret, once."""
        if self.methods == ["client_secret_post"]:
            given = (form.get("client_id"), form.get("client_secret"))
            return credentials is None and given == (CLIENT, SECRET)
        scheme, _, encoded = (credentials or "").partition(" ")
        pair = base64.b64decode(encoded).decode().split(":")
        return scheme == "Basic" and [*map(unquote_plus, pair)] == [CLIENT, SECRET]


def _key() -> RSAKey:
    return RSAKey.generate_key(2048, auto_kid=True)
