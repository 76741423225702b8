"""Platform adapter for Proxmox VE 8 and 9 over its HTTPS API."""

from opendrs.platforms.proxmox.kind import KIND as KIND
from opendrs.platforms.proxmox.platform import ProxmoxPlatform as ProxmoxPlatform
from opendrs.platforms.proxmox.settings import ProxmoxSettings as ProxmoxSettings
