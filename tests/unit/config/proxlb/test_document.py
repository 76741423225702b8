"""The YAML reader for ProxLB: plain values, and nothing that YAML allows beyond."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opendrs.config.parsing import DuplicateKeysDict
from opendrs.config.proxlb.document import MAX_SIZE, read_document
from opendrs.errors import InvalidFileError


def read(directory: Path, text: str) -> object:
    path = directory / "proxlb.yaml"
    path.write_text(text, encoding="utf-8")
    return read_document(path)


def test_keys_are_texts_and_values_are_typed(tmp_path: Path) -> None:
    text = "a: {101: [1, 0.5, on, ~, '2']}\non: 2026-01-31\n"

    assert read(tmp_path, text) == {
        "a": {"101": [1, 0.5, True, None, "2"]},
        "on": "2026-01-31",
    }


def test_duplicate_keys_are_kept_for_a_diagnostic(tmp_path: Path) -> None:
    found = read(tmp_path, "a: 1\na: 2\n")

    assert isinstance(found, DuplicateKeysDict)
    assert found.duplicate_keys == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x\n", "line 2: an alias"),
        pytest.param("x: " + "[" * 400, "nested too deeply", id="depth"),
        pytest.param("n: " + "9" * 6000, "number too long", id="decimal"),
        pytest.param("n: 0x" + "f" * 60_000, "number too long", id="base 16"),
        pytest.param("n: " + "1:" * 6000 + "1", "number too long", id="base 60"),
        ("a: [1\n", "not YAML"),
        ("a: \x01\n", "not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        ("a: !!python/object/apply:os.getcwd []\n", r"not YAML .*line 1, column 4"),
        ("a: !!set {b}\n", "not YAML"),
        ("a: !!binary aGVsbG8=\n", "not YAML"),
        ("[proxmox]\napi_host: pve1\n", "format of ProxLB 1.0"),
        pytest.param("a" * (MAX_SIZE + 1), "larger than", id="size"),
    ],
)
def test_file_that_is_no_plain_yaml_is_rejected(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InvalidFileError, match=message):
        read(tmp_path, text)


def test_nested_aliases_are_rejected_before_they_expand(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)
    ]  # 9**10 values

    with pytest.raises(InvalidFileError, match="alias"):
        read(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    "value", ["!hunter2", "*hunter2", "@hunter2", "%hunter2", "a: hunter2", "[hunter2"]
)
def test_message_contains_no_secret_of_the_file(tmp_path: Path, value: str) -> None:
    with pytest.raises(InvalidFileError) as error:
        read(tmp_path, f"proxmox_api:\n  pass: {value}\n")

    assert "hunter2" not in str(error.value)
    assert "(line " in str(error.value) or ": line 2: " in str(error.value)


def test_named_pipe_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    with pytest.raises(InvalidFileError, match="named pipe"):
        read_document(path)
