"""Power drivers, and `PoweredPlatform`, which adds power actions to a platform."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
