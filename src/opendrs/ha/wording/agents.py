"""The lines of Proxmox VE for the agent of a node."""

from opendrs.ha import events
from opendrs.ha.wording.line import Lines, corrupted, error, info, warning

LINES: Lines = {
    events.ReportUnwritable: error("unable to write lrm status file - {0.error}"),
    events.ReportLate: error("unable to update lrm status file - not quorate?"),
    events.StatusNotUpdated: error(
        "updating service status from manager failed: {0.error}"
    ),
    events.ShutdownRequested: info(
        "got shutdown request with shutdown policy '{0.policy}'"
    ),
    events.ShutdownPolicyUnknown: error(
        "unknown shutdown policy '{0.policy}', fall back to conditional"
    ),
    events.MaintenanceGoesOn: info(
        "{0.kind} LRM, ignore maintenance policy, already in maintenance mode"
    ),
    events.PolicyOverruled: info(
        "{0.kind} LRM, ignore {0.policy} policy as manual maintenance mode is enabled"
    ),
    events.NodeEmptied: info(
        "{0.kind} LRM, doing maintenance, removing this node from active list"
    ),
    events.AllFrozen: info("{0.kind} LRM, stop and freeze all services"),
    events.AllStopped: info("shutdown LRM, stop all services"),
    events.RestartInMaintenance: corrupted(
        "Restarting LRM in maintenance mode may be delayed until all services are moved"
    ),
    events.RestartBegun: info("restart LRM, freeze all services"),
    events.FencingAwaited: error("node needs to be fenced - releasing agent_lock"),
    events.FencingAwaitedInMaintenance: error(
        "node needs to be fenced during maintenance mode - releasing agent_lock"
    ),
    events.AgentDisarmed: info(
        "HA disarm requested, releasing agent lock and watchdog"
    ),
    events.AgentDisarmedInMaintenance: info(
        "HA disarm requested during maintenance, releasing agent lock and watchdog"
    ),
    events.AgentIdle: info(
        "node had no service configured for {0.rounds} rounds, going idle."
    ),
    events.ShutdownWithServices: error(
        "got shutdown request in state 'lost_agent_lock' - detected {0.services} "
        "running services"
    ),
    events.ShutdownForced: error(
        "lost agent lock and restart request for over {0.seconds} seconds - giving up!"
    ),
    events.RetriesExhausted: error(
        "unable to start service {0.service} on local node after {0.tries} retries"
    ),
    events.StartRetried: warning(
        "restart policy: retry number {0.tries} for service '{0.service}'"
    ),
    events.JobRaised: error("{0.error}"),
    events.JobCrashed: error("resource agent {0.service} finished - failed to execute"),
}
