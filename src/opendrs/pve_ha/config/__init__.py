"""Readers and writers of datacenter.cfg, resources.cfg and rules.cfg of Proxmox VE."""

from opendrs.pve_ha.config.datacenter import ShareUnit as ShareUnit
from opendrs.pve_ha.config.datacenter import (
    datacenter_from_options as datacenter_from_options,
)
from opendrs.pve_ha.config.datacenter import format_datacenter as format_datacenter
from opendrs.pve_ha.config.datacenter import read_datacenter as read_datacenter
from opendrs.pve_ha.config.resources import ResourceConfig as ResourceConfig
from opendrs.pve_ha.config.resources import format_resources as format_resources
from opendrs.pve_ha.config.resources import read_resources as read_resources
