"""The power of nodes: a platform around another, and drivers."""

from opendrs.platforms.power.driver import Driver as Driver
from opendrs.platforms.power.driver import PowerState as PowerState
from opendrs.platforms.power.drivers import Drivers as Drivers
from opendrs.platforms.power.platform import Powered as Powered
from opendrs.platforms.power.settings import DRIVERS as DRIVERS
from opendrs.platforms.power.settings import CommandSettings as CommandSettings
from opendrs.platforms.power.settings import DriverSettings as DriverSettings
from opendrs.platforms.power.settings import NoneSettings as NoneSettings
from opendrs.platforms.power.settings import PowerSettings as PowerSettings
from opendrs.platforms.power.settings import RedfishSettings as RedfishSettings
from opendrs.platforms.power.waiting import LATE as LATE
