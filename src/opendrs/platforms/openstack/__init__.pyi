from .platform import OpenStackPlatform as OpenStackPlatform
from .settings import KIND as KIND
from .settings import OpenStackSettings as OpenStackSettings
