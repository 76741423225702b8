"""The package can be loaded without libvirt, and says what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from opendrs.errors import ConfigurationError
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.libvirt.library import library


def test_loading_the_package_does_not_load_libvirt() -> None:
    code = "import sys, opendrs.platforms.libvirt; sys.exit('libvirt' in sys.modules)"

    done = subprocess.run(  # noqa: S603 -- this very Python
        [sys.executable, "-c", code], check=False
    )

    assert done.returncode == 0


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)
    library.cache_clear()
    settings = LibvirtSettings(nodes={"h1": "test:///default"})

    with pytest.raises(ConfigurationError, match=r"pip install .\.\[libvirt\]"):
        LibvirtPlatform("lab", settings).observe()
