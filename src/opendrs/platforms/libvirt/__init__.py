"""Clusters of libvirt hosts; the library itself is loaded when first needed."""

from opendrs.platforms.libvirt.platform import LibvirtPlatform as LibvirtPlatform
from opendrs.platforms.libvirt.settings import LibvirtSettings as LibvirtSettings
