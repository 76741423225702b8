"""Explanations of a recorded decision: why a move, why not, why nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opendrs.config.policy_loading import recorded_limits
from opendrs.config.snapshot_reading import recorded_snapshot_from
from opendrs.controller.planned_steps import PlannedStep
from opendrs.controller.stay_reasons import StayReason, StayReasons
from opendrs.controller.step_serialization import (
    action_document,
    document_path,
    moves_disk,
    skipped_groups,
)
from opendrs.errors import ConfigurationError, StoreError
from opendrs.model import (
    DOMAIN_ORIGIN,
    Guest,
    GuestId,
    GuestPriority,
    Limits,
    NodeId,
    Snapshot,
    TagExclusion,
    format_count,
    rule_guests,
)
from opendrs.policies import DecisionReason, reason_text
from opendrs.policies.load_metrics import metric_label, metric_text
from opendrs.ports import CycleRecord
from opendrs.rules import FeasibilityChecker, compile_rules

MAX_REJECTIONS = 3  # reasons why nodes are infeasible that are listed
MAX_STEPS = 10  # steps of a plan that are listed
IN_PLAN = "in-plan"  # code of a guest that an open plan migrates


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a part of a recorded decision.

    Attributes:
        subject: The cycle, step, guest or node.
        code: Code of a decision reason or skip reason; `planned` or a `StayReason` for
            a guest; `node` for a node.
        answer: The answer as one sentence.
        details: Further facts, one per line.
    """

    subject: str
    code: str
    answer: str
    details: tuple[str, ...] = ()


def explain(record: CycleRecord, subject: str | None) -> Explanation | None:
    """Return why *record* decides as it does about *subject*; None if unknown.

    Args:
        record: A cycle with its inputs.
        subject: A guest, a node, or a step of its plan; None for the decision.

    Raises:
        StoreError: The record is damaged.
    """
    try:
        document: Mapping[str, Any] = record.document
        decision = document["decision"]
        if subject is None or subject == record.run:
            return explain_decision(record.run, decision)
        if subject in document["snapshot"]["guests"]:
            return _explain_guest(document, GuestId(subject), record.run)
        if subject in document["snapshot"]["nodes"]:
            return _explain_node(document, subject)
        for step in decision["steps"]:
            if step["id"] == subject:
                return _explain_step(decision, step)
    except (ConfigurationError, LookupError, TypeError, ValueError) as error:
        raise StoreError(
            f"store: cycle {record.run}: cannot be explained: {error}"
        ) from error
    return None


def explained_in_plan(
    found: Explanation, planned: Sequence[PlannedStep]
) -> Explanation:
    """Return the explanation of a guest with the open plan that migrates it.

    Args:
        found: The explanation from the last cycle, which may be later than the plan.
        planned: Planned steps, also of others.
    """
    moves = [each for each in planned if each.migrated_guest == found.subject]
    if not moves:
        return found
    texts = [
        f"plan {each.plan.id} ({each.plan.state}), step {each.step.id}: "
        f"{_move_text(each)}"
        for each in moves
    ]
    answer = f"{found.subject} is moved by {'; '.join(texts)}"
    reasons = tuple(
        f"step {each.step.id}: {each.step.detail}" for each in moves if each.step.detail
    )
    return replace(
        found, code=IN_PLAN, answer=answer, details=(*reasons, *found.details)
    )


def _move_text(planned: PlannedStep) -> str:
    action = action_document(planned.step.action)
    _, source, target = document_path(action)
    return f"{action['kind']} from {source} to {target}"


def excluded_nodes(record: CycleRecord, subject: str) -> dict[str, list[str]] | None:
    """Return the nodes that were no target of a guest in the snapshot of *record*.

    Args:
        record: A cycle with its inputs.
        subject: A guest, or a step of its plan that moves one.

    Returns:
        The nodes by the cause: the rule, the guests or the amount of memory that
        excludes them, the most frequent cause first. Nodes with the same cause and
        other amounts have that of the first one. None if *subject* is no guest.

    Raises:
        StoreError: The record is damaged.
    """
    try:
        document: Mapping[str, Any] = record.document
        steps = {step["id"]: step["guest"] for step in document["decision"]["steps"]}
        name = steps.get(subject) or subject
        if name not in document["snapshot"]["guests"]:
            return None
        snapshot = recorded_snapshot_from(document["snapshot"], record.run)
        limits = recorded_limits(document["settings"])
        infeasible = _infeasible_nodes(snapshot, limits, GuestId(name))
    except (ConfigurationError, LookupError, TypeError, ValueError) as error:
        raise StoreError(
            f"store: cycle {record.run}: cannot be explained: {error}"
        ) from error
    first: dict[str, str] = {}
    groups: dict[str, list[str]] = {}
    for node, detail in infeasible.items():
        groups.setdefault(first.setdefault(_form(detail), detail), []).append(node)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return dict(ordered)


def explain_decision(run: str, decision: Mapping[str, Any]) -> Explanation:
    """Return why *decision* has a plan, or none; its inputs are not needed."""
    steps, reason = decision["steps"], decision["reason"]
    planned = f"planned: {format_count(len(steps), 'step')}"
    action = planned if steps else "nothing is planned"
    answer = f"{action}: {reason}: {decision['detail']}".rstrip(": ")
    return Explanation(run, reason, answer, tuple(_decision_details(decision)))


def decision_text(decision: Mapping[str, Any]) -> str:
    """Return the reason of a recorded decision in words, and its detail."""
    code = decision["reason"]
    known = code in set(DecisionReason)
    text = reason_text(DecisionReason(code)) if known else code
    return f"{text}: {decision['detail']}".rstrip(": ")


def _decision_details(decision: Mapping[str, Any]) -> Iterator[str]:
    yield f"policy: {decision['policy']}"
    for name, before in decision["before"].items():
        after = decision["after"].get(name, before)
        texts = _figure(name, before), _figure(name, after)
        yield f"{metric_label(name)}: {texts[0]} now, {texts[1]} after"
    changed = decision.get("violations", {"before": [], "after": []})
    counts = len(changed["before"]), len(changed["after"])
    yield f"violated rules, strict and soft: {counts[0]} now, {counts[1]} after"
    for step in decision["steps"][:MAX_STEPS]:
        yield f"step {step['id']}: {_action_text(step)}"
    if further := decision["steps"][MAX_STEPS:]:
        yield f"{format_count(len(further), 'further step')}"
    skipped = Counter[str]()
    for group in decision["skipped"]:
        skipped[group["reason"]] += len(group["guests"])
    for reason, count in skipped.items():
        yield f"skipped: {reason}: {format_count(count, 'guest')}"
    yield from decision["notes"]


def _figure(name: str, value: float | None) -> str:
    """Return a recorded metric; None was not finite."""
    return "unknown" if value is None else metric_text(name, value)


def _explain_step(decision: Mapping[str, Any], step: Mapping[str, Any]) -> Explanation:
    answer = f"{_action_text(step)}: {step['detail']}".rstrip(": ")
    details = [f"decision: {decision_text(decision)}"]
    if step["depends_on"]:
        details.append(f"starts after: {', '.join(step['depends_on'])}")
    return Explanation(step["id"], decision["reason"], answer, tuple(details))


def _action_text(step: Mapping[str, Any]) -> str:
    guest, source, target = document_path(step)
    if not guest:
        return f"{step['kind']} of {target}"
    return f"{step['kind']} of {guest} from {source} to {target}"


def _explain_guest(
    document: Mapping[str, Any], guest: GuestId, source: str
) -> Explanation:
    decision = document["decision"]
    snapshot = recorded_snapshot_from(document["snapshot"], source)
    limits = recorded_limits(document["settings"])
    own = [step for step in decision["steps"] if step["guest"] == guest]
    details = (
        *(
            f"step {x['id']}: {_explain_step(decision, x).answer}"
            for x in own
            if moves_disk(x)
        ),
        *_guest_details(snapshot, snapshot.guests[guest]),
    )
    for step in own:
        if not moves_disk(step):
            found = _explain_step(decision, step)
            return Explanation(guest, "planned", found.answer, found.details + details)
    for group in skipped_groups(document):
        if guest in group["guests"]:
            answer = f"{guest} is skipped: {group['reason']}: {group['detail']}"
            return Explanation(guest, group["reason"], answer, details)
    return _explain_unmoved(document, snapshot, limits, guest, details)


def _explain_unmoved(
    document: Mapping[str, Any],
    snapshot: Snapshot,
    limits: Limits,
    guest: GuestId,
    details: tuple[str, ...],
) -> Explanation:
    """Return why a guest that the policy did not skip is in no step."""
    reasons = StayReasons(snapshot, limits)
    reason = reasons.reason(guest)
    if reason is StayReason.NOT_RUNNING:
        answer = f"{guest} stays: only running guests are migrated"
        return Explanation(guest, reason, answer, details)
    infeasible, avoided = reasons.infeasible_nodes(guest), reasons.avoided_nodes(guest)
    others = len(snapshot.nodes) - 1
    feasible = others - len(infeasible) - len(avoided)
    counted = (
        f"feasible nodes: {feasible} of {others} others",
        *_listed("avoided because of a soft rule", avoided),
        *_listed("infeasible", infeasible),
    )
    answers = {
        StayReason.MIGRATION_FAILED: f"is not migrated: {reasons.detail(guest)}",
        StayReason.IMMOVABLE: f"must not be migrated: {reasons.detail(guest)}",
        StayReason.NO_FEASIBLE_NODE: "stays: no other node is feasible for it",
        StayReason.SOFT_RULE: "stays: a soft rule excludes "
        f"{format_count(len(avoided), 'other node')} that could run it",
        StayReason.NOT_CHOSEN: _not_chosen(document["decision"], feasible),
    }
    answer = f"{guest} {answers[reason]}"
    return Explanation(guest, reason, answer, (*details, *counted))


def _not_chosen(decision: Mapping[str, Any], feasible: int) -> str:
    if not decision["steps"]:
        cause = "nothing is planned"
    elif all(moves_disk(step) for step in decision["steps"]):
        cause = "no migration is planned"
    else:
        cause = "the plan without it was the better one"
    nodes, reason = format_count(feasible, "node"), decision_text(decision)
    return f"could move to {nodes}, but {cause}: {reason}"


def _listed(title: str, excluded: Mapping[NodeId, str]) -> Iterator[str]:
    """Yield one line for each frequent cause in *excluded*."""
    for node, count in _examples(excluded):
        yield f"{title}: {node}{_others(count - 1)}: {excluded[node]}"


def _infeasible_nodes(
    snapshot: Snapshot, limits: Limits, guest: GuestId
) -> dict[NodeId, str]:
    """Return why each infeasible node is infeasible for the move group of *guest*."""
    rules = compile_rules(snapshot)
    names = sorted(rules.together.get(guest, frozenset((guest,))))
    group = [snapshot.guests[name] for name in names]
    return FeasibilityChecker(snapshot, rules, limits).infeasible_nodes(group)


def _examples(infeasible: Mapping[NodeId, str]) -> list[tuple[NodeId, int]]:
    """Return one node of each frequent form of rejection, and how many have it."""
    forms = {node: _form(detail) for node, detail in infeasible.items()}
    counts = Counter(forms.values())
    first = {form: node for node, form in reversed(forms.items())}
    return [(first[form], count) for form, count in counts.most_common(MAX_REJECTIONS)]


def _others(count: int) -> str:
    return f" and {format_count(count, 'other')}" if count else ""


def _form(detail: str) -> str:
    """Return *detail* without its numbers."""
    return " ".join(
        word for word in detail.split() if not any(sign.isdigit() for sign in word)
    )


def _guest_details(snapshot: Snapshot, guest: Guest) -> Iterator[str]:
    yield f"on {guest.node}, {guest.state.value}, {guest.effective_mobility.text}"
    if guest.mobility_detail:
        yield f"mobility: {guest.mobility_detail}"
    if guest.managed_by:
        yield f"placed by: {guest.managed_by}"
    if guest.lock:
        yield f"locked by: {guest.lock}"
    for rule in snapshot.rules:
        if rule.origin == DOMAIN_ORIGIN:
            continue  # realizes the rule before it
        if isinstance(rule, TagExclusion | GuestPriority):
            applies = rule.applies_to(guest)
        else:
            applies = guest.id in rule_guests(rule)
        if applies:
            yield f"rule: {rule}"


def _explain_node(document: Mapping[str, Any], name: str) -> Explanation:
    node = document["snapshot"]["nodes"][name]
    guests = document["snapshot"]["guests"].values()
    count = format_count(sum(guest["node"] == name for guest in guests), "guest")
    steps = document["decision"]["steps"]
    moves = [step for step in steps if step["source"] != step["target"]]
    leave = sum(step["source"] == name for step in moves)
    arrive = sum(step["target"] == name and bool(step["guest"]) for step in moves)
    state = node.get("state", "unknown")
    answer = f"{name} is {state}: {count}, {leave} leave, {arrive} arrive"
    return Explanation(name, "node", answer, tuple(_node_details(document, name)))


def _node_details(document: Mapping[str, Any], name: str) -> Iterator[str]:
    decision = document["decision"]
    node = document["snapshot"]["nodes"][name]
    usage, capacity = node.get("usage", {}), node.get("capacity", {})
    for resource in ("cpu", "memory"):
        if resource in usage and capacity.get(resource):
            yield f"{resource}: {usage[resource] / capacity[resource]:.0%} used"
        else:
            yield f"{resource}: unknown"
    yield f"decision: {decision_text(decision)}"
    for rule in document["snapshot"].get("rules", ()):
        if name in rule.get("nodes", ()):
            label = rule.get("name", f"{len(rule['guests'])} guests")
            yield f"rule: {rule['kind']}: {label}"
    for step in decision["steps"]:
        if name in (step["source"], step["target"]):
            yield f"{step['id']}: {_explain_step(decision, step).answer}"
