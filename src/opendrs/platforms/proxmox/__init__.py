"""Platform adapter for Proxmox VE 8 and 9 over its HTTPS API."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
