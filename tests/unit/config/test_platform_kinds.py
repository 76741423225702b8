"""Platforms in a configuration are read with the kinds and extensions passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from opendrs.config import Diagnostic, DiagnosticCode
from opendrs.config.binding import TableBinder
from opendrs.config.platform_kinds import (
    ExtensionTable,
    PlatformExtension,
    PlatformKind,
    PlatformRegistry,
)
from opendrs.config.settings import Settings
from opendrs.config.settings_reading import settings_and_diagnostics
from opendrs.ports import Platform

Read = Callable[[dict[str, object]], tuple[Settings, tuple[Diagnostic, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToySettings:
    token_file: Path
    ca: Path | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    url: str
    ca: Path | None = None
    nodes: Collection[str] | None


def create(name: str, settings: object, rules: object) -> NoReturn:
    raise AssertionError((name, settings, rules))


def toy_nodes(settings: ToySettings) -> Collection[str] | None:
    return settings.hosts or None


def read_load(
    table: ExtensionTable,
) -> tuple[LoadSettings | None, Iterable[Diagnostic]]:
    nodes = {"nodes": table.nodes}
    binder = TableBinder(LoadSettings, table.value, table.path, preset=nodes)
    return binder.partial_value, binder.diagnostics


def extend(platform: Platform, settings: LoadSettings) -> NoReturn:
    raise AssertionError((platform, settings))


TOY = PlatformKind(settings_type=ToySettings, create=create, nodes=toy_nodes)
SAVED = PlatformKind(settings_type=ToySettings, create=create, read_only=True)
REGISTRY = PlatformRegistry(
    kinds={"toy": lambda: TOY, "saved": lambda: SAVED},
    extensions={"load": lambda: PlatformExtension(read=read_load, extend=extend)},
)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def result(lab: dict[str, object]) -> tuple[Settings, tuple[Diagnostic, ...]]:
        document = {"platform": {"lab": lab}}
        return settings_and_diagnostics(document, "FILE", tmp_path, REGISTRY)

    return result


def test_paths_in_settings_are_relative_to_the_configuration(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/operator")

    settings, diagnostics = read({"kind": "toy", "token_file": "t", "ca": "~/ca.pem"})

    assert diagnostics == ()
    assert settings.connection("lab").settings == ToySettings(
        token_file=tmp_path / "t", ca=Path("/home/operator/ca.pem")
    )


def test_path_with_unknown_user_is_reported(read: Read) -> None:
    _, (diagnostic,) = read({"kind": "toy", "token_file": "~no-such-user/t"})

    assert diagnostic.path == ("platform", "lab", "token_file")
    assert diagnostic.code is DiagnosticCode.UNUSABLE_FILE


def test_nodes_are_those_that_the_settings_list(read: Read) -> None:
    listed, _ = read({"kind": "toy", "token_file": "t", "hosts": ["a", "b"]})
    not_listed, _ = read({"kind": "toy", "token_file": "t"})

    assert listed.connection("lab").nodes == ("a", "b")
    assert not_listed.connection("lab").nodes is None


def test_extension_reads_its_table_with_the_nodes_of_the_platform(
    read: Read, tmp_path: Path
) -> None:
    load = {"url": "https://prometheus", "ca": "ca.pem"}

    settings, diagnostics = read(
        {"kind": "toy", "token_file": "t", "hosts": ["a"], "load": load}
    )

    assert diagnostics == ()
    assert settings.connection("lab").extensions == {
        "load": LoadSettings(
            url="https://prometheus", ca=tmp_path / "ca.pem", nodes=("a",)
        )
    }


def test_errors_of_extension_are_reported(read: Read) -> None:
    settings, (diagnostic,) = read({"kind": "toy", "token_file": "t", "load": {}})

    assert diagnostic.path == ("platform", "lab", "load", "url")
    assert diagnostic.code is DiagnosticCode.MISSING_KEY
    assert settings.connection("lab").extensions == {"load": None}


def test_read_only_platform_has_no_extensions(read: Read) -> None:
    settings, (diagnostic,) = read({"kind": "saved", "token_file": "t", "load": 3})

    assert diagnostic.path == ("platform", "lab", "load")
    assert diagnostic.code is DiagnosticCode.UNKNOWN_KEY
    assert settings.connection("lab").extensions == {}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ({}, DiagnosticCode.MISSING_KEY),
        ({"kind": "other"}, DiagnosticCode.UNKNOWN_VALUE),
        ({"kind": 3}, DiagnosticCode.UNKNOWN_VALUE),
    ],
)
def test_unknown_kind_is_reported_with_the_known_ones(
    read: Read, kind: dict[str, object], code: DiagnosticCode
) -> None:
    settings, (diagnostic,) = read(kind)

    assert settings.platforms == {}
    assert diagnostic.code is code
    assert "saved, toy" in diagnostic.message
