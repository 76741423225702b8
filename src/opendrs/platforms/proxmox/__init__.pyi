from .platform import ProxmoxPlatform as ProxmoxPlatform
from .settings import KIND as KIND
from .settings import ProxmoxSettings as ProxmoxSettings
