"""Load of nodes and guests from Prometheus, for any platform."""

from opendrs.platforms.prometheus.platform import EXTENSION as EXTENSION
from opendrs.platforms.prometheus.platform import MeasuredPlatform as MeasuredPlatform
from opendrs.platforms.prometheus.settings import (
    PrometheusSettings as PrometheusSettings,
)
