"""Host agent: samples the load of its host, evaluates it, and sends requests."""

from opendrs.agent.cycle import HostAgent as HostAgent
from opendrs.agent.cycle import StoppedError as StoppedError
from opendrs.agent.cycle import interruptible_sleep as interruptible_sleep
from opendrs.agent.cycle import run_forever as run_forever
from opendrs.agent.http_client import ControllerClient as ControllerClient
from opendrs.agent.state_file import AgentStateFile as AgentStateFile
