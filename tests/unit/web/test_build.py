"""The built files of the dashboard are those that its sources give."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "web"
BUILT = ROOT / "src" / "opendrs" / "web"
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(
    NODE is None or not (SOURCES / "node_modules").is_dir(),
    reason="needs node and its packages: cd web && npm ci",
)


def _run(*arguments: str) -> None:
    assert NODE is not None
    done = subprocess.run(  # noqa: S603 - ours
        [NODE, *arguments], cwd=SOURCES, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@needs_node
def test_build_again_gives_the_committed_bytes(tmp_path: Path) -> None:
    _run("build.mjs", str(tmp_path))

    built, committed = _contents(tmp_path), _contents(BUILT)

    assert built.keys() == committed.keys()
    assert [name for name in built if built[name] != committed[name]] == []


@needs_node
def test_generated_types_are_those_of_the_openapi_document(tmp_path: Path) -> None:
    types = tmp_path / "types.ts"
    document = ROOT / "docs" / "reference" / "openapi.json"

    _run(
        "node_modules/openapi-typescript/bin/cli.js",
        str(document),
        "--output",
        str(types),
    )

    committed = SOURCES / "src" / "api" / "generated.ts"
    assert types.read_text("utf-8") == committed.read_text("utf-8")


@needs_node
@pytest.mark.slow
def test_sources_pass_the_type_checker() -> None:
    _run("node_modules/typescript/bin/tsc", "--noEmit")


def test_page_has_no_inline_code_and_loads_nothing_from_elsewhere() -> None:
    page = (BUILT / "index.html").read_text(encoding="utf-8")
    style = (BUILT / "app.css").read_text(encoding="utf-8")

    assert re.findall(r"(?:src|href)=\"[^\"]*:", page) == []
    assert re.findall(r"<style|style=|\son\w+=|<script(?![^>]*src)", page) == []
    assert "url(http" not in style
    assert "@import" not in style


def test_lock_file_names_no_registry() -> None:
    lock = (SOURCES / "package-lock.json").read_text(encoding="utf-8")

    hosts = set(re.findall(r'"resolved": "https?://([^/"]+)', lock))

    assert hosts <= {"registry.npmjs.org"}
