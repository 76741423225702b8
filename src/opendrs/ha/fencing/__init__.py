"""Fence devices: how they are configured, and the commands that use them."""

from opendrs.ha.fencing.devices import Device as Device
from opendrs.ha.fencing.devices import FenceCommand as FenceCommand
from opendrs.ha.fencing.devices import fence_commands as fence_commands
from opendrs.ha.fencing.reading import FenceConfigError as FenceConfigError
from opendrs.ha.fencing.reading import read_fencing as read_fencing
from opendrs.ha.fencing.writing import fencing_text as fencing_text
