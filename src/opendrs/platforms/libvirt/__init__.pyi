from .platform import LibvirtPlatform as LibvirtPlatform
from .settings import KIND as KIND
from .settings import LibvirtSettings as LibvirtSettings
