"""The libvirt library, which is loaded when it is first needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from opendrs.errors import ConfigurationError
from opendrs.platforms.libvirt.failures import Failure

# libvirt-python has no types; what leaves this package is typed.
Connection: TypeAlias = Any
Domain: TypeAlias = Any


@cache
def library() -> ModuleType:
    """Return the module libvirt, silenced.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        module = import_module("libvirt")
    except ImportError as error:
        raise ConfigurationError(
            "the libvirt platform needs libvirt-python, which is not there: "
            "make libvirt, or pip install '.[libvirt]', in a checkout of opendrs",
            "it is built from source and needs a compiler and libvirt's headers; "
            "on Debian: apt-get install gcc pkg-config python3-dev libvirt-dev",
        ) from error
    except SystemError as error:  # in a process that has changed its user
        raise ConfigurationError(f"libvirt cannot be loaded: {error}") from error
    # By default libvirt writes each error to stderr as well as raising it.
    module.registerErrorHandler(_ignore, None)
    return module


def _ignore(*_: object) -> None:
    """Take note of an error that libvirt also raises."""


def failure(error: Exception) -> Failure:
    """Return what a libvirtError says."""
    told: Any = error
    return Failure(
        code=told.get_error_code() or 0,
        domain=told.get_error_domain() or 0,
        errno=told.get_int1() or 0,
        message=told.get_error_message() or str(error),
    )
