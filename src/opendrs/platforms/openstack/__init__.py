"""Adapter for OpenStack clouds: Nova and Placement by openstacksdk."""

from opendrs.platforms.openstack.kind import KIND as KIND
from opendrs.platforms.openstack.platform import OpenStackPlatform as OpenStackPlatform
from opendrs.platforms.openstack.settings import OpenStackSettings as OpenStackSettings
