"""The lines of Proxmox VE for the rounds of the manager."""

from opendrs.ha import events
from opendrs.ha.wording.line import Lines, error, hardware_warning, info, warning

LINES: Lines = {
    events.SchedulerUsed: info("using scheduler mode '{0.mode}'"),
    events.SchedulerSwitched: info(
        "switching scheduler mode from '{0.old}' to '{0.new}'"
    ),
    events.SchedulerUnknown: warning(
        "got unknown scheduler mode '{0.mode}', using 'basic'"
    ),
    events.SchedulerFellBack: warning(
        "fallback to 'basic' scheduler mode, init for '{0.mode}' failed - {0.why}"
    ),
    events.ServiceAdded: info("adding new service '{0.service}' on node '{0.node}'"),
    events.ServiceRemoved: info("removing stale service '{0.service}' ({0.why})"),
    events.RuleDropped: info("Drop rule '{0.rule}', because {0.why}."),
    events.UsageUnknown: warning("unable to add service '{0.service}' - {0.why}"),
    events.StartsUnscored: error(
        "unable to score nodes according to {0.mode} usage for service "
        "'{0.service}' - {0.why}"
    ),
    events.MovesUnscored: warning("unable to score best balancing migration - {0.why}"),
    events.Overcommitted: hardware_warning("overcommitted {0.resource} on '{0.owner}'"),
    events.Rebalanced: info(
        "auto rebalance - {0.task} {0.service} to {0.target} (expected change for "
        "imbalance from {0.before:.2f} to {0.after:.2f})"
    ),
    events.ServiceStateChanged: info(
        "service '{0.service}': state changed from '{0.old}' to '{0.new}'{0.parameters}"
    ),
}
