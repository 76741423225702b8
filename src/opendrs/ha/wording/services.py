"""The lines of Proxmox VE for one service."""

from opendrs.ha import events
from opendrs.ha.wording.line import Lines, error, info, warning

LINES: Lines = {
    events.StartPlaced: info(
        "service {0.service}: re-balance selected {0.choice} node {0.nodes} for startup"
    ),
    events.StateUnknown: error(
        "service '{0.service}' - unknown state '{0.state}' in service configuration"
    ),
    events.TargetOffline: error(
        "ignore service '{0.service}' {0.task} request - node '{0.target}' not online"
    ),
    events.TargetReached: info(
        "ignore service '{0.service}' {0.task} request - service already on node "
        "'{0.target}'"
    ),
    events.MotionBegun: info("{0.task} service '{0.service}' to node '{0.target}'"),
    events.HardStopAsked: info(
        "request immediate service hard-stop for service '{0.service}'"
    ),
    events.GracefulStopAsked: info(
        "request graceful stop with timeout '{0.timeout}' for service '{0.service}'"
    ),
    events.StopNeedless: info(
        "ignore service '{0.service}' stop request - service already stopped"
    ),
    events.RelocationSucceeded: info(
        "relocation policy successful for '{0.service}' on node '{0.node}', failed "
        "nodes: {0.failed}"
    ),
    events.StartFailed: warning(
        "starting service {0.service} on node '{0.node}' failed, relocating service."
    ),
    events.RelocationFailed: error(
        "recovery policy for service {0.service} failed, entering error state. "
        "Failed nodes: {0.failed}"
    ),
    events.ServiceBroken: error(
        "service '{0.service}' got unrecoverable error (exit code {0.code})"
    ),
    events.ServiceReturns: info(
        "moving service '{0.service}' back to '{0.node}', node came back from "
        "maintenance."
    ),
    events.ReturnDropped: info(
        "dropping maintenance fallback node '{0.node}' for '{0.service}'"
    ),
    events.ReturnNeedless: info(
        "service '{0.service}': clearing stale maintenance node '{0.node}' setting "
        "(is current node)"
    ),
    events.MigrationChosen: info(
        "migrate service '{0.service}' to node '{0.node}' (running)"
    ),
    events.RelocationChosen: info("relocate service '{0.service}' to node '{0.node}'"),
    events.NodesExhausted: warning(
        "Start Error Recovery: Tried all available nodes for service "
        "'{0.service}', retry start on current node. Tried nodes: {0.failed}"
    ),
    events.StopFailed: error("service '{0.service}' stop failed (exit code {0.code})"),
    events.WrongNode: error(
        "service '{0.service}' - migration failed: service registered on wrong node!"
    ),
    events.PlacedStartNeedless: info(
        "service '{0.service}' - rebalance-on-start request ignored - service "
        "already running"
    ),
    events.MotionFailed: error(
        "service '{0.service}' - migration failed (exit code {0.code})"
    ),
    events.LocationCorrected: info(
        "fixup service '{0.service}' location ({0.old} => {0.new})"
    ),
    events.Recovered: info(
        "recover service '{0.service}' from fenced node '{0.old}' to node '{0.new}'"
    ),
    events.RecoveredInPlace: info(
        "recover service '{0.service}' to previous failed and fenced node "
        "'{0.node}' again"
    ),
    events.LockRemoved: warning(
        "removed leftover lock '{0.lock}' from recovered service '{0.service}' to "
        "allow its start."
    ),
    events.NotRecovered: error(
        "recovering service '{0.service}' from fenced node '{0.node}' failed, no "
        "recovery node found"
    ),
}
