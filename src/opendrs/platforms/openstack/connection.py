"""Connection to a cloud by openstacksdk: clouds.yaml, version and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.openstack.settings import OpenStackSettings
from opendrs.transport.http_json import single_line
from opendrs.transport.secrets import credential_path

if TYPE_CHECKING:
    from openstack.connection import Connection

# The oldest and the newest microversion of Nova whose responses are read: Train, and
# 2024.1, the first that has pinned_availability_zone.
MICROVERSIONS = ((2, 79), (2, 96))
T = TypeVar("T")


def load_library() -> Any:  # noqa: ANN401 - a module that may be missing
    """Return the module `openstack`.

    Raises:
        ConfigurationError: openstacksdk is not installed.
    """
    try:
        import openstack.connection  # noqa: PLC0415 - optional
    except ImportError:
        raise ConfigurationError(
            "openstacksdk is not installed; run pip install "
            "'.[openstack]' in a checkout of opendrs",
            code=DiagnosticCode.UNUSABLE_LIBRARY,
        ) from None
    return openstack


def connect(name: str, settings: OpenStackSettings) -> Connection:
    """Return a connection to the cloud of *settings*, which is not logged in yet.

    Args:
        name: Name of the platform, for error messages.
        settings: The settings.

    Raises:
        ConfigurationError: clouds.yaml does not have the cloud.
    """
    library = load_library()
    files = secure = None
    if settings.clouds_file is not None:
        path = credential_path(settings.clouds_file)
        if not path.is_file():
            raise ConfigurationError(
                f"platform {name}: clouds_file: {path}: no such file",
                code=DiagnosticCode.UNUSABLE_FILE,
            )
        files, secure = [str(path)], [str(path.with_name("secure.yaml"))]
    region = {} if settings.region is None else {"region_name": settings.region}
    try:
        config = library.config.OpenStackConfig(
            config_files=files, secure_files=secure, app_name="opendrs"
        )
        chosen = config.get_one(
            cloud=settings.cloud, api_timeout=settings.timeout, **region
        )
    except Exception as error:  # noqa: BLE001 - YAML, files and plugins
        raise ConfigurationError(
            f"platform {name}: cloud {settings.cloud}: {single_line(str(error))}",
            code=DiagnosticCode.UNUSABLE_FILE,
        ) from None
    connection: Connection = library.connection.Connection(config=chosen)
    return connection


def negotiate(connection: Connection) -> str:
    """Return the newest known microversion that the cloud has.

    Raises:
        UnexpectedResponseError: It has none of them.
    """
    data = connection.compute.get_endpoint_data()
    newest = None if data is None else data.max_microversion
    if newest is None:
        connection.compute.get("/")  # an unreachable endpoint has no data either
        raise UnexpectedResponseError("compute: the endpoint reports no microversions")
    for known in reversed(MICROVERSIONS):
        if tuple(newest) >= known:
            return ".".join(map(str, known))
    raise UnexpectedResponseError(
        f"compute: expected microversion {MICROVERSIONS[0][0]}.{MICROVERSIONS[0][1]} "
        f"(Train) or later, got {newest[0]}.{newest[1]}"
    )


def translated(name: str, call: Callable[[], T]) -> T:
    """Return the result of *call*, with the errors of the library translated.

    Args:
        name: Name of the platform, for error messages.
        call: Sends requests.

    Raises:
        PlatformError: An error of the library.
    """
    from keystoneauth1 import exceptions as auth  # noqa: PLC0415 - optional
    from openstack import exceptions as sdk  # noqa: PLC0415
    from requests import RequestException  # noqa: PLC0415

    try:
        return call()
    except (auth.Unauthorized, auth.Forbidden) as error:
        raise PermissionDeniedError(
            f"{name}: not logged in: {single_line(str(error))}"
        ) from None
    except (
        auth.ConnectFailure,
        auth.RetriableConnectionFailure,
        auth.DiscoveryFailure,
        sdk.ServiceDiscoveryException,
    ) as error:
        raise PlatformUnavailableError(
            f"{name}: unreachable: {single_line(str(error))}"
        ) from None
    except (auth.HttpServerError, RequestException) as error:
        raise PlatformUnavailableError(f"{name}: {single_line(str(error))}") from None
    except (auth.ClientException, sdk.SDKException) as error:
        raise PlatformError(f"{name}: {single_line(str(error))}") from None
