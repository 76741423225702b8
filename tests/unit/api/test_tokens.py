"""Tokens identify the agent of a node, and are never disclosed."""

from pathlib import Path

import pytest

from opendrs.api.tokens import TokenTable, hash_token, new_token, read_tokens
from opendrs.errors import ConfigurationError
from opendrs.model import NodeId

# As `printf secret | sha256sum` prints it.
HASH = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
OTHER = hash_token("other")


def test_token_owner_is_found_by_hash() -> None:
    tokens = TokenTable({HASH: NodeId("h1"), OTHER: NodeId("h2")})

    assert tokens.owner("secret") == "h1"
    assert tokens.owner("other") == "h2"


@pytest.mark.parametrize("token", ["", "Secret", "secret ", HASH, "\x00ü"])
def test_unknown_token_has_no_owner(token: str) -> None:
    assert TokenTable({HASH: NodeId("h1")}).owner(token) is None


SHOWN, MADE = "a token of h1", "3Zk0aT-_9qX1" + "y" * 31  # as long as those made here


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h1: vm1 should leave", "h1: vm1 should leave"),
        (f"h1: {SHOWN} should leave", "h1: [a secret] should leave"),
        (f"h1: x{SHOWN}x should leave", "h1: x[a secret]x should leave"),
        (f"h2: {MADE}", "h2: [a secret]"),
        (f"h2: vm-{MADE}_1, vm2", "h2: vm-[a secret]_1, vm2"),
        (f"{MADE}{MADE}", "[a secret][a secret]"),
        (f"/api/v1/guests/{MADE}/samples", "/api/v1/guests/[a secret]/samples"),
        ("h3: made-by-others, vm3", "h3: [a secret], vm3"),
        (f"{'x' * 200}", f"{'x' * 200}"),
        (MADE[:42], MADE[:42]),
    ],
)
def test_tokens_are_masked_before_first_use(text: str, expected: str) -> None:
    hashes = {SHOWN: "h1", MADE: "h2", "made-by-others": "h3"}
    tokens = TokenTable(
        {hash_token(token): NodeId(node) for token, node in hashes.items()}
    )
    assert tokens.owner(SHOWN) == "h1"

    assert tokens.mask(text) == expected


def test_short_tokens_are_not_masked_because_every_text_contains_them() -> None:
    tokens = TokenTable({hash_token("a"): NodeId("h1")})
    assert tokens.owner("a") == "h1"

    assert tokens.mask("nothing at all") == "nothing at all"


def test_new_tokens_are_unique() -> None:
    tokens = {new_token() for _ in range(100)}

    assert len(tokens) == 100
    assert all(len(token) == 43 for token in tokens)  # 256 bits in base64


def test_repr_contains_neither_token_nor_hash() -> None:
    assert HASH not in repr(TokenTable({HASH: NodeId("h1")}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_token_file_may_have_several_hashes_per_node(path: Path) -> None:
    path.write_text(f'h1 = "{HASH.upper()}"\n"h 2" = ["{OTHER}", "{"0" * 64}"]\n')

    tokens = read_tokens(path)

    assert (tokens.owner("secret"), tokens.owner("other")) == ("h1", "h 2")
    assert tokens.nodes == {"h1", "h 2"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a line like"),
        ('h1 = "secret"', "h1: expected the SHA-256 of a token"),
        (f'h1 = "{HASH}0"', "h1: expected the SHA-256 of a token"),
        ("h1 = 1", "h1: expected the SHA-256 of a token"),
        (f'h1 = ["{HASH}", "secret"]', "h1: expected the SHA-256 of a token"),
        (f'h1 = "{HASH}"\nh2 = "{HASH}"', "h2: same token as h1; create a new one"),
        (f'"" = "{HASH}"', "expected the name of a node"),
        (f'"a\\nb" = "{HASH}"', "expected the name of a node"),
        ("h1 = ", "TOML"),
    ],
)
def test_invalid_token_file_error_has_no_content(
    path: Path, text: str, problem: str
) -> None:
    path.write_text(text)

    with pytest.raises(ConfigurationError) as raised:
        read_tokens(path)

    assert str(raised.value).startswith(f"api.tokens: {path}")
    assert problem in str(raised.value)
    assert "secret" not in str(raised.value)
    assert HASH not in str(raised.value)


def test_missing_token_file_is_configuration_error(path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"api.tokens: cannot read .*tokens\.toml"
    ):
        read_tokens(path)
