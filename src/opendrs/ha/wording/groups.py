"""The lines of Proxmox VE for how groups become rules."""

from opendrs.ha import events
from opendrs.ha.wording.line import Lines, error, notice

LINES: Lines = {
    events.GroupsBegun: notice("start ha group migration..."),
    events.GroupsNode: notice(
        "ha groups migration: node '{0.node}' is in state '{0.state}'"
    ),
    events.GroupsAgent: notice(
        "ha groups migration: lrm '{0.node}' is in state '{0.state}' and mode "
        "'{0.mode}'"
    ),
    events.GroupsVersion: notice(
        "ha groups migration: node '{0.node}' has version '{0.version}'"
    ),
    events.GroupRulesWritten: notice(
        "ha groups migration: migration to rules config successful"
    ),
    events.GroupsLeft: notice(
        "ha groups migration: migration to resources config successful"
    ),
    events.GroupsDeleted: notice(
        "ha groups migration: group config deletion successful"
    ),
    events.GroupsDone: notice("ha groups migration successful"),
    events.GroupsAborted: error("abort ha groups migration: {0.why}"),
    events.GroupsFailed: error("ha groups migration failed"),
    events.GroupsLater: notice(
        "retry ha groups migration in {0.rounds} rounds (~ {0.seconds} seconds)"
    ),
}
