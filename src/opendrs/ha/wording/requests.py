"""The lines of Proxmox VE for what the operator asks for."""

from opendrs.ha import events
from opendrs.ha.wording.line import Lines, error, info, notice, warning

LINES: Lines = {
    events.RequestTaken: info("got crm command: {0.line}"),
    events.RequestUnknown: error("unable to parse crm command: {0.line}"),
    events.NoSuchService: error("crm command error - no such service: {0.line}"),
    events.NodeNotOnline: error("crm command error - node not online: {0.line}"),
    events.AlreadyThere: info(
        "ignore crm command - service already on target node: {0.line}"
    ),
    events.KeptApart: error(
        "crm command '{0.line}' error - service '{0.other}' on node '{0.target}' "
        "in negative affinity with service '{0.service}'"
    ),
    events.DraggedAlong: info(
        "crm command '{0.line}' - {0.task} service '{0.other}' to node "
        "'{0.target}' (service '{0.other}' in positive affinity with service "
        "'{0.service}')"
    ),
    events.MaintenanceRefused: warning(
        "ignoring maintenance command for node {0.node} - HA stack is disarmed"
    ),
    events.MaintenanceNeedless: info(
        "ignoring crm command - node {0.node} is already in maintenance state"
    ),
    events.MaintenanceNotBegun: warning(
        "clearing maintenance of node {0.node} requested, but it's in state {0.state}"
    ),
    events.DisarmNeedless: notice(
        "ignoring disarm-ha command - already in disarm state ({0.state})"
    ),
    events.TrackingSuspended: info(
        "disarm: suspending HA tracking for service '{0.service}'"
    ),
    events.ArmNeedless: notice("ignoring arm-ha command - HA stack is not disarmed"),
    events.MovedWhileDisarmed: info(
        "service '{0.service}': updating node '{0.old}' => '{0.new}' (changed "
        "while disarmed)"
    ),
    events.DisarmModeUnknown: error("unknown disarm-mode '{0.mode}', ignoring"),
    events.DisarmDeferred: warning(
        "deferring disarm - service '{0.service}' is in '{0.state}' state"
    ),
    events.DisarmDelayed: info(
        "deferring disarm - service '{0.service}' is in '{0.state}' state"
    ),
    events.Frozen: info("disarm: freezing service '{0.service}' (was '{0.state}')"),
    events.AllDisarmed: info("all LRMs disarmed, HA stack is now fully disarmed"),
}
