"""The lines of Proxmox VE for nodes."""

from opendrs.ha import events
from opendrs.ha.wording.line import Lines, info, mail, notice

LINES: Lines = {
    events.NodeStateChanged: info(
        "node '{0.node}': state changed from '{0.old}' => '{0.new}'"
    ),
    events.GoneNodeForgotten: notice(
        "deleting gone node '{0.node}', not a cluster member anymore."
    ),
    events.FencingBegun: mail("FENCE: Try to fence node '{0.node}'"),
    events.FencingAcknowledged: info(
        "fencing: acknowledged - got agent lock for node '{0.node}'"
    ),
    events.FencingSucceeded: mail(
        "SUCCEED: fencing: acknowledged - got agent lock for node '{0.node}'"
    ),
    events.FencedWithoutServices: notice(
        "node '{0.node}' in fence state but no services to-fence! admin interference?!"
    ),
    events.MasterOffline: info("master seems offline"),
}
