"""Power drivers, and `PoweredPlatform`, which adds power actions to a platform."""

from opendrs.power.binding import EXTENSION as EXTENSION
from opendrs.power.driver import PowerState as PowerState
from opendrs.power.platform import PowerDrivers as PowerDrivers
from opendrs.power.platform import PoweredPlatform as PoweredPlatform
from opendrs.power.settings import POWER_DRIVERS as POWER_DRIVERS
from opendrs.power.settings import NoPowerSettings as NoPowerSettings
from opendrs.power.settings import PowerCommandSettings as PowerCommandSettings
from opendrs.power.settings import PowerDriverSettings as PowerDriverSettings
from opendrs.power.settings import PowerSettings as PowerSettings
from opendrs.power.settings import RedfishSettings as RedfishSettings
