"""The lab and the management controller, for all tests of this directory."""

from integration.lab import lab as lab
from integration.lab import lab_hosts as lab_hosts
from integration.redfish import bmc as bmc
