"""Verification of ID tokens, and the user and the role that their claims give.

The library joserfc is an extra; it is imported where it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opendrs.api.problems import ProblemError
from opendrs.api.schema.access import MAX_USER
from opendrs.api.schema.common import ApiProblem
from opendrs.config.oidc_settings import OidcSettings
from opendrs.ports import Role

# Signatures with a public key. A symmetric one or none proves nothing here.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
)
LEEWAY = 60  # seconds by which the clock of the issuer may differ
_KEY_TYPES = ("RSA", "EC")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcUser:
    """A user that the issuer has authenticated.

    Attributes:
        name: Name for the audit.
        subject: Its identifier at the issuer.
        role: Its role; None if no value of the claim gives one.
    """

    name: str
    subject: str
    role: Role | None


class UnknownKeyError(Exception):
    """Signature that none of the known keys of the issuer verifies."""


def verified_claims(
    id_token: str,
    keys: Mapping[str, Any],
    settings: OidcSettings,
    nonce: str,
    now: datetime,
) -> Mapping[str, Any]:
    """Return the claims of *id_token*.

    Args:
        id_token: The token.
        keys: The public keys of the issuer, a JWK set.
        settings: Issuer and client.
        nonce: Value that was sent with the request.
        now: The present time.

    Raises:
        UnknownKeyError: No key verifies the signature.
        ProblemError: The token is invalid, expired, or for another client or request.

    Source:
        OpenID Connect Core 1.0, section 3.1.3.7.
    """
    from joserfc import errors, jwt  # noqa: PLC0415 - an extra

    try:
        token = jwt.decode(id_token, _key_set(keys), algorithms=ALGORITHMS)
    except (errors.InvalidKeyIdError, errors.BadSignatureError) as error:
        raise UnknownKeyError from error
    except (errors.JoseError, ValueError) as error:
        raise _rejected(_reason(error)) from None
    claims = token.claims
    registry = jwt.JWTClaimsRegistry(
        now=int(now.timestamp()),
        leeway=LEEWAY,
        iss={"essential": True, "value": settings.issuer},
        aud={"essential": True, "value": settings.client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        registry.validate(claims)
    except (errors.JoseError, ValueError, TypeError) as error:
        raise _rejected(_reason(error)) from None
    clients = claims["aud"]
    authorized = claims.get("azp")
    has_others = isinstance(clients, list) and len(clients) > 1
    if authorized != settings.client_id and (has_others or authorized is not None):
        raise _rejected("azp: expected this client")
    if not isinstance(claims["sub"], str):
        raise _rejected("sub: expected a text")
    return claims


def rejected_signature() -> ProblemError:
    """Return the problem of an ID token that no key of the issuer verifies."""
    return _rejected("its signature is not that of a key of the issuer")


def user_of(claims: Mapping[str, Any], settings: OidcSettings) -> OidcUser:
    """Return the user that *claims* describe."""
    subject = str(claims["sub"])
    named = claims.get(settings.user_claim)
    name = named if isinstance(named, str) and named.strip() else subject
    printable = "".join(c if c.isprintable() else "?" for c in name)
    return OidcUser(
        name=printable[:MAX_USER],
        subject=subject[:MAX_USER],
        role=_role(claims.get(settings.role_claim), settings),
    )


def _role(value: object, settings: OidcSettings) -> Role | None:
    """Return the highest role that *value*, a text or a list of texts, gives."""
    given = value if isinstance(value, list) else [value]
    texts = {each for each in given if isinstance(each, str)}
    values = {
        Role.ADMIN: settings.admin,
        Role.OPERATOR: settings.operator,
        Role.VIEWER: settings.viewer,
    }
    found = (
        role for role, accepted in values.items() if not texts.isdisjoint(accepted)
    )
    return next(found, None)


def _key_set(keys: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the library
    """Return the keys of *keys* that can verify an ID token."""
    from joserfc import errors  # noqa: PLC0415 - an extra
    from joserfc.jwk import JWKRegistry, KeySet  # noqa: PLC0415

    listed = keys.get("keys")
    found = []
    for each in listed if isinstance(listed, list) else []:
        if not isinstance(each, dict) or each.get("kty") not in _KEY_TYPES:
            continue
        if each.get("use", "sig") != "sig":
            continue
        try:
            found.append(JWKRegistry.import_key(each))
        except (errors.JoseError, ValueError, TypeError, KeyError):
            continue  # a key of a form that is not known
    return KeySet(found)


def _reason(error: Exception) -> str:
    """Return *error* of the library without values of the token."""
    return str(getattr(error, "description", "")) or "it is malformed"


def _rejected(reason: str) -> ProblemError:
    return ProblemError(
        ApiProblem.SIGN_IN_REJECTED, f"ID token rejected: {reason}; sign in again"
    )
