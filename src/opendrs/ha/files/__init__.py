"""Proxmox VE's resources.cfg and datacenter.cfg: read, checked, written."""

from opendrs.ha.files.datacenter import Share as Share
from opendrs.ha.files.datacenter import datacenter_of as datacenter_of
from opendrs.ha.files.datacenter import datacenter_text as datacenter_text
from opendrs.ha.files.datacenter import read_datacenter as read_datacenter
from opendrs.ha.files.resources import Resource as Resource
from opendrs.ha.files.resources import read_resources as read_resources
from opendrs.ha.files.resources import resources_text as resources_text
