"""A token says whose agent it is, and is told to nobody."""

from pathlib import Path

import pytest

from opendrs.controller.requests.tokens import Tokens, hash_of, new_token, read_tokens
from opendrs.errors import ConfigurationError
from opendrs.model import NodeId

# As `printf secret | sha256sum` prints it.
HASH = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
OTHER = hash_of("other")


def test_is_known_by_its_hash() -> None:
    tokens = Tokens({HASH: NodeId("h1"), OTHER: NodeId("h2")})

    assert tokens.owner("secret") == "h1"
    assert tokens.owner("other") == "h2"


@pytest.mark.parametrize("token", ["", "Secret", "secret ", HASH, "\x00ü"])
def test_any_other_is_nobodys(token: str) -> None:
    assert Tokens({HASH: NodeId("h1")}).owner(token) is None


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
        (f"/v1/guests/{MADE}/samples", "/v1/guests/[a secret]/samples"),
        ("h3: made-by-others, vm3", "h3: [a secret], vm3"),
        (f"{'x' * 200}", f"{'x' * 200}"),
        (MADE[:42], MADE[:42]),
    ],
)
def test_tokens_are_masked_also_those_that_were_never_shown(
    text: str, expected: str
) -> None:
    hashes = {SHOWN: "h1", MADE: "h2", "made-by-others": "h3"}
    tokens = Tokens({hash_of(token): NodeId(node) for token, node in hashes.items()})
    assert tokens.owner(SHOWN) == "h1"

    assert tokens.mask(text) == expected


def test_short_tokens_are_not_masked_because_every_text_contains_them() -> None:
    tokens = Tokens({hash_of("a"): NodeId("h1")})
    assert tokens.owner("a") == "h1"

    assert tokens.mask("nothing at all") == "nothing at all"


def test_no_two_new_ones_are_the_same() -> None:
    tokens = {new_token() for _ in range(100)}

    assert len(tokens) == 100
    assert all(len(token) == 43 for token in tokens)  # 256 bits in base64


def test_what_is_shown_of_them_holds_neither_token_nor_hash() -> None:
    assert HASH not in repr(Tokens({HASH: NodeId("h1")}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_reads_one_or_several_for_each_node(path: Path) -> None:
    path.write_text(f'h1 = "{HASH.upper()}"\n"h 2" = ["{OTHER}", "{"0" * 64}"]\n')

    tokens = read_tokens(path)

    assert (tokens.owner("secret"), tokens.owner("other")) == ("h1", "h 2")
    assert tokens.nodes == {"h1", "h 2"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected a line like"),
        ('h1 = "secret"', "h1: expected the SHA-256 of a token"),
        (f'h1 = "{HASH}0"', "h1: expected the SHA-256 of a token"),
        ("h1 = 1", "h1: expected the SHA-256 of a token"),
        (f'h1 = ["{HASH}", "secret"]', "h1: expected the SHA-256 of a token"),
        (f'h1 = "{HASH}"\nh2 = "{HASH}"', "h2: its token is that of h1 as well"),
        (f'"" = "{HASH}"', "expected the name of a node"),
        (f'"a\\nb" = "{HASH}"', "expected the name of a node"),
        ("h1 = ", "TOML"),
    ],
)
def test_says_what_is_wrong_with_a_file_and_not_what_is_in_it(
    path: Path, text: str, complaint: str
) -> None:
    path.write_text(text)

    with pytest.raises(ConfigurationError) as raised:
        read_tokens(path)

    assert str(raised.value).startswith(f"requests.tokens: {path}")
    assert complaint in str(raised.value)
    assert "secret" not in str(raised.value)
    assert HASH not in str(raised.value)


def test_says_so_when_there_is_no_file(path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"requests.tokens: cannot read .*tokens\.toml"
    ):
        read_tokens(path)
