/** One plan: before and after, order in time, reasons, approval, progress. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { getTagged, Problem, put, session, type Tagged } from "../api/client";
import type { Plan } from "../api/types";
import { IMBALANCE_TEXT, metricLabel, metricText } from "../metrics";
import { Confirm } from "../components/dialog";
import { Gantt } from "../components/gantt";
import { Badge, Change, Empty, ErrorNote, Facts, Heading, NodeLink, Panel, Pending } from "../components/parts";
import { Observed } from "../components/observed";
import { PlanBadge } from "../components/plan_state";
import { StepList } from "../components/step_list";
import { count, dateTime, duration, percent, shortTime, withDurations, words } from "../format";
import { announce } from "../live/announce";
import { useDocument } from "../live/loader";
import { secondsUntil } from "../live/clock";
import { planChanges, progress, refresh, state } from "../live/state";
import { nodeChanges } from "../cluster";
import { href } from "../router";
import { withDependents, withPrerequisites } from "../plan_steps";

type Action = "approve" | "reject" | "cancel";

export function PlanPage(props: { id: string }): JSX.Element {
  const address = `/plans/${encodeURIComponent(props.id)}`;
  const found = useDocument<Tagged<Plan>>(address, (abort) => getTagged(address, abort), planChanges.value);
  if (found.value === null) return <Pending error={found.error} reload={found.reload} what="the plan" />;
  return <LoadedPlan key={props.id} plan={found.value.document} etag={found.value.etag} address={address} reload={found.reload} />;
}

function LoadedPlan(props: { plan: Plan; etag: string | null; address: string; reload: () => void }): JSX.Element {
  const { plan, etag, reload } = props;
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [selected, setSelected] = useState<string | null>(null);
  const [action, setAction] = useState<Action | null>(null);
  const [changed, setChanged] = useState(false);
  const choosing = plan.state === "proposed" && session.value?.role !== "viewer";
  const chosen = useMemo(() => {
    const approved = plan.approval?.steps;
    const names = approved ?? plan.steps.map((step) => step.id).filter((id) => !left.has(id));
    return new Set(names);
  }, [plan, left]);
  const toggle = (step: string): void => {
    const next = new Set(left);
    if (next.has(step)) withPrerequisites(plan, [step]).forEach((each) => next.delete(each));
    else withDependents(plan, [step]).forEach((each) => next.add(each));
    setLeft(next);
  };
  const perform = async (because: string): Promise<void> => {
    try {
      await act(props.address, action, plan, chosen, etag, because);
    } catch (error) {
      if (error instanceof Problem && error.status === 412) setChanged(true);
      throw error;
    } finally {
      reload();
      void refresh().catch(() => undefined);
    }
    announce(`Plan ${plan.id}: ${action} accepted`);
  };
  return (
    <>
      <Heading title={<>Plan {plan.id} <PlanBadge plan={plan} /></>} text={withDurations(plan.reason_detail)}>
        <Buttons plan={plan} chosen={chosen.size} onAction={setAction} />
      </Heading>
      {changed ? <ErrorNote text="The plan has changed since this page was loaded. It is shown as it is now; read it again before you approve." /> : null}
      {plan.state === "superseded" ? <Successor plan={plan} /> : null}
      <Summary plan={plan} />
      <Panel title="Order in time" actions={<ScheduleText plan={plan} />}>
        <Gantt plan={plan} progress={progress.value} chosen={chosen} selected={selected} onSelect={setSelected} />
      </Panel>
      <Panel
        title={`Steps (${plan.steps.length})`}
        actions={<><Decided plan={plan} />{choosing ? <Selection plan={plan} chosen={chosen.size} onAll={() => setLeft(new Set())} onNone={() => setLeft(new Set(plan.steps.map((step) => step.id)))} /> : null}</>}
      >
        <StepList plan={plan} chosen={chosen} choosing={choosing} selected={selected} onToggle={toggle} onSelect={setSelected} progress={progress.value} />
      </Panel>
      <div class="columns">
        <NodesPanel plan={plan} chosen={chosen} />
        <MetricsPanel plan={plan} />
      </div>
      {action !== null ? (
        <Confirm
          title={TITLES[action](plan, chosen.size)}
          action={ACTIONS[action](plan, chosen.size)}
          danger={action !== "approve"}
          {...(action === "approve" ? {} : { reason: action === "reject" ? "required" as const : "optional" as const })}
          onConfirm={perform}
          onClose={() => setAction(null)}
        >
          <p class="muted">{TEXTS[action]}</p>
        </Confirm>
      ) : null}
    </>
  );
}

const TITLES: Record<Action, (plan: Plan, chosen: number) => string> = {
  approve: (plan, chosen) => `Approve ${chosen} of ${count(plan.steps.length, "step")} of plan ${plan.id}?`,
  reject: (plan) => `Reject plan ${plan.id}?`,
  cancel: (plan) => `Cancel plan ${plan.id}?`,
};

const ACTIONS: Record<Action, (plan: Plan, chosen: number) => string> = {
  approve: (_, chosen) => `Approve ${count(chosen, "step")}`,
  reject: (plan) => `Reject plan ${plan.id}`,
  cancel: (plan) => `Cancel plan ${plan.id}`,
};

const TEXTS: Record<Action, string> = {
  approve: "The approval is for the plan as shown. The guard checks each step again right before it starts.",
  reject: "No step is executed. The next cycle may propose another plan.",
  cancel: "No further step starts. Steps in progress finish.",
};

async function act(
  address: string,
  action: Action | null,
  plan: Plan,
  chosen: ReadonlySet<string>,
  etag: string | null,
  because: string,
): Promise<void> {
  if (action === "approve") {
    const steps = plan.steps.map((step) => step.id).filter((id) => chosen.has(id));
    await put(`${address}/approval`, steps.length === plan.steps.length ? {} : { steps }, etag);
  } else if (action === "reject") {
    await put(`${address}/rejection`, { because }, etag);
  } else if (action === "cancel") {
    await put(`${address}/cancellation`, because === "" ? {} : { because }, etag);
  }
}

/** Link from a plan that another one has replaced to the present one. */
function Successor(props: { plan: Plan }): JSX.Element | null {
  const present = state.value?.plan ?? null;
  if (present === null || present.id === props.plan.id) return null;
  return (
    <p class="sentence" role="status">
      A later decision has replaced this plan. <a class="button" href={href("plans", present.id)}>Open the present plan {present.id}</a>
    </p>
  );
}

function Buttons(props: { plan: Plan; chosen: number; onAction: (action: Action) => void }): JSX.Element | null {
  const { plan, chosen, onAction } = props;
  if (session.value?.role === "viewer") return null;
  if (plan.state === "proposed") {
    return (
      <>
        <button type="button" class="button primary" disabled={chosen === 0} onClick={() => onAction("approve")}>
          Approve {chosen === plan.steps.length ? "all" : chosen} {chosen === 1 && plan.steps.length > 1 ? "step" : "steps"}
        </button>
        <button type="button" class="button danger" onClick={() => onAction("reject")}>
          Reject
        </button>
      </>
    );
  }
  if (plan.state === "approved" || plan.state === "running") {
    return (
      <button type="button" class="button danger" onClick={() => onAction("cancel")}>
        Cancel
      </button>
    );
  }
  return null;
}

function Summary(props: { plan: Plan }): JSX.Element {
  const { plan } = props;
  const left = secondsUntil(plan.expires_at);
  const items: [string, JSX.Element | string][] = [
    ["Policy", plan.policy],
    ["Reason", <Badge key="reason">{words(plan.reason)}</Badge>],
    ["Created", dateTime(plan.created_at)],
  ];
  if (plan.state === "proposed" || plan.state === "approved") {
    items.push(["Expires", left > 0 ? `in ${duration(left)}` : "now"]);
  }
  if (plan.approval !== null) {
    const by = plan.approval.user ?? "mode automatic";
    items.push(["Approved", `${plan.approval.steps.length} of ${count(plan.steps.length, "step")} by ${by}, ${dateTime(plan.approval.at)}`]);
  }
  const done = plan.steps.filter((step) => step.outcome === "done").length;
  if (plan.steps.some((step) => step.outcome !== null)) items.push(["Done", `${done} of ${count(plan.steps.length, "step")}`]);
  if (plan.detail !== "") items.push(["State", plan.detail]);
  return <Facts items={items} />;
}

function ScheduleText(props: { plan: Plan }): JSX.Element | null {
  const ends = props.plan.steps.flatMap((step) =>
    step.estimated_start === null ? [] : [step.estimated_start + (step.estimated_seconds ?? 0)],
  );
  if (ends.length === 0) return null;
  const known = props.plan.steps.every((step) => step.estimated_seconds !== null);
  return (
    <span class="muted">
      estimated: {known ? "" : "at least "}
      {duration(Math.max(...ends))}
    </span>
  );
}

function Selection(props: { plan: Plan; chosen: number; onAll: () => void; onNone: () => void }): JSX.Element {
  return (
    <span class="toolbar">
      <span class="muted">
        {props.chosen} of {props.plan.steps.length} chosen
      </span>
      <button type="button" class="button" onClick={props.onAll}>
        All
      </button>
      <button type="button" class="button" onClick={props.onNone}>
        None
      </button>
    </span>
  );
}

/** Time of the loads that the reasons and the figures of a plan are about. */
function Decided(props: { plan: Plan }): JSX.Element {
  return <span class="muted">loads at the decision, {shortTime(props.plan.created_at)}</span>;
}

/** Shares of the nodes that the plan touches, as observed last and after its steps. */
function NodesPanel(props: { plan: Plan; chosen: ReadonlySet<string> }): JSX.Element {
  const shown = state.value;
  const { plan, chosen } = props;
  const changes = useMemo(
    () => (shown === null ? [] : nodeChanges(shown, plan.steps.filter((step) => chosen.has(step.id)))),
    [shown?.nodes, shown?.guests, plan.steps, chosen],
  );
  return (
    <Panel title="Nodes as observed, and after the chosen steps" actions={<Observed />}>
      {changes.length === 0 ? (
        <Empty>No step is chosen that still has to be executed.</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-label="Loads of the nodes">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col" class="numeric">CPU</th>
                <th scope="col" class="numeric">Memory</th>
              </tr>
            </thead>
            <tbody>
              {changes.map((each) => (
                <tr key={each.node}>
                  <th scope="row"><NodeLink id={each.node} /></th>
                  <td class="numeric"><Change before={each.cpu.before} after={each.cpu.after} show={percent} /></td>
                  <td class="numeric"><Change before={each.memory.before} after={each.memory.after} show={percent} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function MetricsPanel(props: { plan: Plan }): JSX.Element {
  const { before, after } = props.plan;
  const names = Object.keys(before);
  return (
    <Panel title="Cluster before and after" actions={<Decided plan={props.plan} />}>
      {names.length === 0 ? (
        <Empty>No figures are recorded.</Empty>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Figure</th>
              <th scope="col" class="numeric">Before and after</th>
            </tr>
          </thead>
          <tbody>
            {names.map((name) => (
              <tr key={name}>
                <th scope="row" {...(name.includes("imbalance") ? { title: IMBALANCE_TEXT } : {})}>{metricLabel(name)}</th>
                <td class="numeric"><Change before={before[name]} after={after[name]} show={(value) => metricText(name, value)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {names.includes("imbalance") ? <p class="sentence muted">Imbalance: {IMBALANCE_TEXT}.</p> : null}
    </Panel>
  );
}
