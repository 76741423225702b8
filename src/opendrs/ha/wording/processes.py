"""The lines of Proxmox VE for the processes of a node."""

from opendrs.ha import events
from opendrs.ha.wording.line import Lines, error, info, notice

LINES: Lines = {
    events.StatusChanged: info("status change {0.old} => {0.new}"),
    events.LockTaken: info("got lock '{0.lock}'"),
    events.ShutdownReceived: info("server received shutdown request"),
    events.ManagerStatusUnreadable: error("could not read manager status: {0.error}"),
    events.UnexpectedError: error("got unexpected error - {0.error}"),
    events.RoundLeftOut: notice(
        "temporary inconsistent cluster state (cfs restart?), skip round"
    ),
    events.DisarmedMasterTookOver: info(
        "taking over as disarmed master, skipping watchdog"
    ),
    events.ClusterIdle: info(
        "cluster had no service configured for {0.rounds} rounds, going idle."
    ),
    events.ManagerLockGivenBack: info("voluntary release CRM lock"),
    events.ManagerLockKept: notice("CRM lock release failed, let the lock timeout"),
    events.ManagerDisarmed: info("HA stack fully disarmed, releasing CRM watchdog"),
    events.ManagerRearmed: info("re-arming HA stack"),
}
