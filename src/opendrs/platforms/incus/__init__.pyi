from .platform import IncusPlatform as IncusPlatform
from .settings import KIND as KIND
from .settings import IncusSettings as IncusSettings
