"""Tokens of the nodes; only their hashes are stored."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from opendrs.config import (
    Diagnostic,
    DiagnosticCode,
    display_path,
    parse,
    raise_diagnostics,
    read_text,
)
from opendrs.config.api_schema import MAX_NAME_LENGTH
from opendrs.controller.events import MASK
from opendrs.errors import ConfigurationError, InvalidFileError
from opendrs.escapes import repr_value
from opendrs.model import NodeId

_HASH = re.compile(r"[0-9a-fA-F]{64}")
_GENERATED_LENGTH = 43  # characters of a token of `new_token`
_MIN_MASKED_LENGTH = 8  # characters; masking shorter tokens would garble every text
_WORD = re.compile(rf"[A-Za-z0-9_-]{{{_MIN_MASKED_LENGTH},}}")
_NAME = f"expected the name of a node: up to {MAX_NAME_LENGTH} characters of one line"
_EXPECTED = "expected the SHA-256 of a token: 64 hexadecimal digits"


def require_node_name(node: str) -> None:
    """Check that *node* is valid as the name of a node in a token file.

    Raises:
        ConfigurationError: The name is not valid.
    """
    if not _is_node_name(node):
        raise ConfigurationError(f"{_NAME}, got {repr_value(node)}")


def _is_node_name(node: str) -> bool:
    return (
        0 < len(node) <= MAX_NAME_LENGTH and node.isprintable() and not node.isspace()
    )


def new_token() -> str:
    """Return a new token with 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return the SHA-256 of *token*, as stored in the token file.

    A token is long and random, so that neither a salt nor a slow hash is necessary.
    """
    return sha256(token.encode()).hexdigest()


class TokenTable:
    """Table of the token hashes of all nodes; thread-safe.

    Args:
        hashes: Node by hash.
    """

    def __init__(self, hashes: Mapping[str, NodeId]) -> None:
        self._hashes = dict(hashes)
        # Received tokens; replaced as a whole because several threads use it.
        self._presented: Mapping[str, NodeId] = {}

    @property
    def nodes(self) -> frozenset[NodeId]:
        """Return the nodes that have a token."""
        return frozenset(self._hashes.values())

    def owner(self, token: str) -> NodeId | None:
        """Return the node of *token*, or None.

        Takes the same time for every token, to prevent timing attacks.
        """
        node_of_token, presented = None, hash_token(token)
        for known, node in self._hashes.items():
            if hmac.compare_digest(known, presented):
                node_of_token = node
        if (
            node_of_token
            and token not in self._presented
            and len(token) >= _MIN_MASKED_LENGTH
        ):
            self._presented = {**self._presented, token: node_of_token}
        return node_of_token

    def contains_token(self, names: Iterable[str], node: NodeId) -> bool:
        """Return True if a name is a token, or contains one received from *node*."""
        presented = [token for token, owner in self._presented.items() if owner == node]
        return any(
            hash_token(name) in self._hashes
            or any(token in name for token in presented)
            for name in names
        )

    def mask(self, text: str) -> str:
        """Return *text* with tokens masked.

        Tokens that no agent has sent yet are known only as hashes. They are found as
        whole words, and those of `new_token` also within words.
        """
        for token in self._presented:
            text = text.replace(token, MASK)
        return _WORD.sub(lambda word: self._mask_word(word[0]), text)

    def _mask_word(self, word: str) -> str:
        if hash_token(word) in self._hashes:
            return MASK
        for start in range(len(word) - _GENERATED_LENGTH + 1):
            part = word[start : start + _GENERATED_LENGTH]
            if hash_token(part) in self._hashes:
                rest = word[start + _GENERATED_LENGTH :]
                return f"{word[:start]}{MASK}{self._mask_word(rest)}"
        return word


def read_tokens(path: Path) -> TokenTable:
    """Return the tokens in the TOML file *path*.

    The file has a line `h1 = "HASH"` for each node, or `h1 = ["HASH", "HASH"]` while
    one token replaces another.

    Raises:
        ConfigurationError: The file is not valid; the messages contain no values.
    """
    source = f"api.tokens: {display_path(path)}"
    try:
        text = read_text(path)
    except InvalidFileError as error:
        raise ConfigurationError(
            f"api.tokens: {error}", code=DiagnosticCode.UNUSABLE_FILE
        ) from error
    document = parse(text, source, ".toml")
    if not isinstance(document, Mapping) or not document:
        raise ConfigurationError(
            f'{source}: expected a line like h1 = "HASH"',
            code=DiagnosticCode.WRONG_TYPE,
        )
    hashes: dict[str, NodeId] = {}
    raise_diagnostics(source, _collect_hashes(document, hashes))
    return TokenTable(hashes)


def _collect_hashes(
    document: Mapping[str, object], hashes: dict[str, NodeId]
) -> Iterator[Diagnostic]:
    """Add the hashes of *document* to *hashes*, and yield the errors."""
    for node, value in document.items():
        if not _is_node_name(node):
            yield Diagnostic((node,), _NAME, code=DiagnosticCode.INVALID_VALUE)
        values: Iterable[object] = value if isinstance(value, list) else [value]
        for each in values:
            if not isinstance(each, str) or not _HASH.fullmatch(each):
                yield Diagnostic((node,), _EXPECTED, code=DiagnosticCode.INVALID_VALUE)
            elif hashes.setdefault(each.lower(), NodeId(node)) != node:
                other = hashes[each.lower()]
                message = f"same token as {other}; create a new one"
                yield Diagnostic((node,), message, code=DiagnosticCode.DUPLICATE_NAME)
