"""The labs and the management controller, for all tests of this directory."""

from integration.full_nova_lab import each_nova as each_nova
from integration.full_nova_lab import full_nova as full_nova
from integration.full_nova_lab import full_nova_hosts as full_nova_hosts
from integration.incus_lab import incus_lab as incus_lab
from integration.incus_lab import incus_members as incus_members
from integration.incus_operator import operator as operator
from integration.libvirt_lab import lab as lab
from integration.libvirt_lab import lab_hosts as lab_hosts
from integration.nova_lab import nova as nova
from integration.nova_lab import nova_hosts as nova_hosts
from integration.nova_lab import slow_nova as slow_nova
from integration.nova_lab import slow_nova_hosts as slow_nova_hosts
from integration.redfish_emulator import bmc as bmc
