"""Platform adapter for libvirt hosts; the library is loaded on first use."""

from opendrs.platforms.libvirt.kind import KIND as KIND
from opendrs.platforms.libvirt.platform import LibvirtPlatform as LibvirtPlatform
from opendrs.platforms.libvirt.settings import LibvirtSettings as LibvirtSettings
