"""The lab, for all tests of this directory."""

from integration.lab import lab as lab
from integration.lab import lab_hosts as lab_hosts
