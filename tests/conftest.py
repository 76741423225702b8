"""Configuration of test runs: no deadlines, and Ctrl-C reaches programs."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

from opendrs.controller.compiled_code import provide_always
from support.postgresql_server import postgresql_server as postgresql_server
from support.postgresql_server import postgresql_url as postgresql_url

# The examples of a test depend on its code alone, so that a run can be repeated. `make
# explore` draws others, as many for each test as the variable says.
EXAMPLES = os.environ.get("OPENDRS_EXPLORE")
settings.register_profile(
    "opendrs",
    deadline=None,
    derandomize=EXAMPLES is None,
    max_examples=int(EXAMPLES or 60),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("opendrs")

# A shell lets what it begins in the background ignore Ctrl-C, and all that this begins.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Large clusters are planned by the compiled search, compiled where it is missing.
provide_always(lambda _line: None)
