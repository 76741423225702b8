"""The HA manager of Proxmox VE as machines without input, output or clock.

`crm` is the manager process of a node and `agent` its local one: each takes a
turn on what it observes, and answers with events and commands. Their words are
in `opendrs.ha.wording`, the rules in `opendrs.ha.rules`, the other files in
`opendrs.ha.files` and `opendrs.ha.fencing`.
"""

from opendrs.ha import agent as agent
from opendrs.ha import commands as commands
from opendrs.ha import crm as crm
from opendrs.ha import events as events
from opendrs.ha.crm import Crm as Crm
from opendrs.ha.documents import AgentReport as AgentReport
from opendrs.ha.documents import Datacenter as Datacenter
from opendrs.ha.documents import Disarm as Disarm
from opendrs.ha.documents import ManagerStatus as ManagerStatus
from opendrs.ha.documents import Motion as Motion
from opendrs.ha.documents import Scheduling as Scheduling
from opendrs.ha.documents import ServiceConfig as ServiceConfig
from opendrs.ha.documents import ServiceStatus as ServiceStatus
from opendrs.ha.documents import Stop as Stop
from opendrs.ha.identifiers import CONTAINER as CONTAINER
from opendrs.ha.identifiers import FAILING as FAILING
from opendrs.ha.identifiers import VIRTUAL_MACHINE as VIRTUAL_MACHINE
from opendrs.ha.identifiers import ServiceId as ServiceId
from opendrs.ha.identifiers import kind_of as kind_of
from opendrs.ha.jobs import Job as Job
from opendrs.ha.jobs import JobEnd as JobEnd
from opendrs.ha.locks import Lock as Lock
from opendrs.ha.lrm import Lrm as Lrm
from opendrs.ha.observation import Files as Files
from opendrs.ha.observation import Measurements as Measurements
from opendrs.ha.observation import Observation as Observation
from opendrs.ha.observation import PowerChange as PowerChange
from opendrs.ha.states import DisarmMode as DisarmMode
from opendrs.ha.states import DisarmState as DisarmState
from opendrs.ha.states import ExitCode as ExitCode
from opendrs.ha.states import NodeState as NodeState
from opendrs.ha.states import Requested as Requested
from opendrs.ha.states import ServiceState as ServiceState
from opendrs.ha.states import Task as Task
from opendrs.ha.turn import Outcome as Outcome
