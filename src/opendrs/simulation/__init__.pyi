from .clock import SimulatedClock as SimulatedClock
from .demo import demo_cluster as demo_cluster
from .platform import SimulatedPlatform as SimulatedPlatform
