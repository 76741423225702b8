"""The labs, for all tests of this directory."""

from integration.incus_lab import incus_lab as incus_lab
from integration.incus_lab import incus_members as incus_members
from integration.libvirt_lab import lab as lab
from integration.libvirt_lab import lab_hosts as lab_hosts
from integration.nova_lab import slow_nova as slow_nova
from integration.nova_lab import slow_nova_hosts as slow_nova_hosts
