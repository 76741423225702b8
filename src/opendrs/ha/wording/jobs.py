"""The lines of Proxmox VE for services that start, stop and move."""

from opendrs.ha import events
from opendrs.ha.wording.line import Lines, error, info, warning

LINES: Lines = {
    events.TypeUnknown: error("service type '{0.kind}' not implemented"),
    events.NotConfigured: error("missing resource configuration for '{0.service}'"),
    events.NeedsOperator: error(
        "service {0.service} is in an error state and needs manual intervention. "
        "Look up 'ERROR RECOVERY' in the documentation."
    ),
    events.NotHere: error("service '{0.service}' not on this node"),
    events.Starting: info("starting service {0.service}"),
    events.Started: info("service status {0.service} started"),
    events.NotStarted: warning("unable to start service {0.service}"),
    events.Stopping: info("stopping service {0.service}"),
    events.StoppingWithin: info("stopping service {0.service} (timeout={0.timeout})"),
    events.StoppingToRelocate: info("stopping service {0.service} (relocate)"),
    events.Stopped: info("service status {0.service} stopped"),
    events.NotStopped: info("unable to stop service {0.service} (still running)"),
    events.RunsAlready: info(
        "ignoring rebalance-on-start for service {0.service} - already running"
    ),
    events.NotLive: warning(
        "unable to live migrate running container, fallback to relocate"
    ),
    events.MoveBegun: info("service {0.service} - start {0.task} to node '{0.target}'"),
    events.MoveEnded: info("service {0.service} - end {0.task} to node '{0.target}'"),
    events.NotMoved: error("service {0.service} not moved (migration error)"),
    events.ServiceLocked: error(
        "service '{0.service}' locked ({0.lock}), unable to {0.act}!"
    ),
    events.CommandUnknown: error("implement me (cmd '{0.command}')"),
}
