"""Whose agent it is that speaks: by a token, of which only the hash is kept."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from opendrs.api.schema import MAX_NAME_LENGTH
from opendrs.config import Diagnostic, display_path, parse, raise_diagnostics, read_text
from opendrs.controller.events import MASK
from opendrs.errors import ConfigurationError, InvalidFileError
from opendrs.escapes import repr_value
from opendrs.model import NodeId

_HASH = re.compile(r"[0-9a-fA-F]{64}")
_GENERATED_LENGTH = 43  # of those that are made here
_MIN_MASKED_LENGTH = 8  # characters; to mask shorter ones would garble every text
_WORD = re.compile(rf"[A-Za-z0-9_-]{{{_MIN_MASKED_LENGTH},}}")
_NAME = f"expected the name of a node: up to {MAX_NAME_LENGTH} characters of one line"
_EXPECTED = "expected the SHA-256 of a token: 64 hexadecimal digits"


def require_node_name(node: str) -> None:
    """Check that *node* can be the name of a node in a file of tokens.

    Raises:
        ConfigurationError: It cannot.
    """
    if not _is_node_name(node):
        raise ConfigurationError(f"{_NAME}, found {repr_value(node)}")


def _is_node_name(node: str) -> bool:
    return (
        0 < len(node) <= MAX_NAME_LENGTH and node.isprintable() and not node.isspace()
    )


def new_token() -> str:
    """Return a token that nobody can guess: 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return the SHA-256 of *token*, as it is written into the file of tokens.

    A token is random and long, so that its hash needs no salt and no slowness.
    """
    return sha256(token.encode()).hexdigest()


class TokenTable:
    """The tokens of all nodes, by their hashes.

    Args:
        hashes: The node of each hash.
    """

    def __init__(self, hashes: Mapping[str, NodeId]) -> None:
        self._hashes = dict(hashes)
        # Those that were shown; replaced as a whole, since several threads use it.
        self._presented: Mapping[str, NodeId] = {}

    @property
    def nodes(self) -> frozenset[NodeId]:
        """Return the nodes that have a token."""
        return frozenset(self._hashes.values())

    def owner(self, token: str) -> NodeId | None:
        """Return the node whose *token* it is, or None.

        It takes as long for every token, so that time tells nothing.
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
        """Return whether a name is a token, or contains one that *node* has shown."""
        presented = [token for token, owner in self._presented.items() if owner == node]
        return any(
            hash_token(name) in self._hashes
            or any(token in name for token in presented)
            for name in names
        )

    def mask(self, text: str) -> str:
        """Return *text* without tokens.

        Only hashes are known of those that no agent has shown yet. They are found as
        whole words, and those that `new_token` makes also within words.
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
    """Return the tokens in the file *path*.

    It is TOML: `h1 = "HASH"` for each node, or `h1 = ["HASH", "HASH"]` while one
    token takes the place of another.

    Raises:
        ConfigurationError: It cannot be read; what is in it is not told.
    """
    source = f"api.tokens: {display_path(path)}"
    try:
        text = read_text(path)
    except InvalidFileError as error:
        raise ConfigurationError(f"api.tokens: {error}") from error
    document = parse(text, source, ".toml")
    if not isinstance(document, Mapping) or not document:
        raise ConfigurationError(f'{source}: expected a line like h1 = "HASH"')
    hashes: dict[str, NodeId] = {}
    raise_diagnostics(source, _collect_hashes(document, hashes))
    return TokenTable(hashes)


def _collect_hashes(
    document: Mapping[str, object], hashes: dict[str, NodeId]
) -> Iterator[Diagnostic]:
    """Fill *hashes*, and yield what is wrong."""
    for node, value in document.items():
        if not _is_node_name(node):
            yield Diagnostic((node,), _NAME)
        values: Iterable[object] = value if isinstance(value, list) else [value]
        for each in values:
            if not isinstance(each, str) or not _HASH.fullmatch(each):
                yield Diagnostic((node,), _EXPECTED)
            elif hashes.setdefault(each.lower(), NodeId(node)) != node:
                other = hashes[each.lower()]
                yield Diagnostic((node,), f"its token is that of {other} as well")
