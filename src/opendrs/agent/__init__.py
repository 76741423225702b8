"""The agent on each host: it looks, remembers, judges its host, and asks."""

from opendrs.agent.courier import Courier as Courier
from opendrs.agent.notebook import Notebook as Notebook
from opendrs.agent.pace import StoppedError as StoppedError
from opendrs.agent.pace import interruptible as interruptible
from opendrs.agent.pace import keep_on as keep_on
from opendrs.agent.round import Agent as Agent
