/** Overview: who acts, what is wrong, how loaded and even, what is next, what happened. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get } from "../api/client";
import type { ClusterSeries, Exception, Plan } from "../api/types";
import { metricText } from "../metrics";
import { Chart, Sparkline, type Line } from "../components/chart";
import type { Arrow } from "../components/map_drawing";
import { NodeMap } from "../components/node_map";
import { Badge, Empty, Mark, Panel, StateBadge } from "../components/parts";
import { count, dateTime, duration, percent, shortTime, words } from "../format";
import type { State } from "../live/delta";
import { useDocument } from "../live/loader";
import { controllerHealth, cycleAge, dataAge, events, planChanges, state } from "../live/state";
import { href } from "../router";
import { guestCounts } from "../cluster";

const LINES: readonly Line[] = [
  { name: "highest_cpu", label: "CPU" },
  { name: "highest_memory", label: "Memory" },
];
const IMBALANCE: readonly Line[] = [{ name: "imbalance", label: "Imbalance" }];
const SUFFERING: readonly Line[] = [{ name: "suffering", label: "Suffering guests" }];
const SHOWN_EXCEPTIONS = 8;
const SHOWN_STEPS = 6;
const SHOWN_EVENTS = 10;

export function Overview(): JSX.Element {
  const shown = state.value;
  const run = shown?.controller.last_cycle?.run ?? "";
  const series = useDocument<ClusterSeries>("series", (abort) => get("/history/series", abort), run);
  const [step, setStep] = useState<string | null>(null);
  const waiting = shown?.plan?.id ?? "";
  const plan = useDocument<Plan | null>(`plan ${waiting}`, async (abort) => (waiting === "" ? null : get<Plan>(`/plans/${waiting}`, abort)), planChanges.value);
  const counts = useMemo(() => (shown ? guestCounts(shown.guests, shown.nodes.id.length) : []), [shown?.guests]);
  const arrows = useMemo(() => (shown ? arrowsOf(shown, plan.value, step) : []), [plan.value, shown?.nodes.id, step]);
  if (shown === null) return <Empty>Loading the state of the cluster …</Empty>;
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Figures state={shown} series={series.value} />
      <div class="overview">
        <div class="stack beside">
          <Exceptions exceptions={shown.exceptions} />
          <Next state={shown} steps={plan.value?.steps ?? []} selected={step} onSelect={setStep} />
        </div>
        <div class="stack">
          <Panel title={`Nodes (${shown.nodes.id.length})`}>
            <NodeMap nodes={shown.nodes} guestCounts={counts} exceptions={shown.exceptions} arrows={arrows} />
          </Panel>
          <div class="charts">
            <Panel title="Highest load of a node">
              <Chart label="Highest load of a node" series={series.value} lines={LINES} show={percent} />
            </Panel>
            <Panel title="Imbalance (normalized)">
              <Chart label="Imbalance" series={series.value} lines={IMBALANCE} show={(value) => metricText("imbalance", value)} />
            </Panel>
            <Panel title="Suffering guests">
              <Chart label="Suffering guests" series={series.value} lines={SUFFERING} whole show={(value) => metricText("suffering", value)} />
            </Panel>
          </div>
          <Recent />
        </div>
      </div>
    </>
  );
}

function arrowsOf(shown: State, plan: Plan | null, step: string | null): Arrow[] {
  const found = plan?.steps.find((each) => each.id === step);
  if (!found?.source || !found.target) return [];
  const source = shown.nodes.id.indexOf(found.source);
  const target = shown.nodes.id.indexOf(found.target);
  return source < 0 || target < 0 ? [] : [{ source, target }];
}

function worstNode(shown: State): { id: string; load: number; resource: string } | null {
  let worst: { id: string; load: number; resource: string } | null = null;
  shown.nodes.id.forEach((id, node) => {
    const loads = [["CPU", shown.nodes.cpu[node]], ["memory", shown.nodes.memory[node]]] as const;
    for (const [resource, load] of loads) {
      if (load != null && (worst === null || load > worst.load)) worst = { id, load, resource };
    }
  });
  return worst;
}

/** The figures of the first row. */
function Figures(props: { state: State; series: ClusterSeries | null }): JSX.Element {
  const { state: shown, series } = props;
  const { controller, mode } = shown;
  const worst = worstNode(shown);
  const health = controllerHealth.value;
  return (
    <section class="figures" aria-label="Status">
      <Figure name="Mode" value={words(mode.mode)} text={mode.detail || mode.text} />
      <Figure
        name="Controller"
        value={health === "running" ? "running" : health}
        tone={health === "running" ? "" : "error"}
        text={controller.host ? `${controller.running ? "leader" : "last on"} ${controller.host}` : "no controller"}
      />
      <Figure
        name="Last cycle"
        value={cycleAge.value === null ? "none" : `${duration(cycleAge.value)} ago`}
        tone={health === "late" ? "error" : ""}
        text={controller.last_cycle ? `${words(controller.last_cycle.reason)}, every ${duration(controller.interval)}` : ""}
      />
      <Figure
        name="Worst node"
        value={worst ? percent(worst.load) : "–"}
        text={worst ? <><a href={href("nodes", worst.id)}>{worst.id}</a> {worst.resource}</> : "no measurement"}
        values={series?.[worst?.resource === "memory" ? "highest_memory" : "highest_cpu"] ?? []}
      />
      <Figure name="Imbalance" value={metricText("imbalance", shown.metrics["imbalance"] ?? series?.imbalance.at(-1))} text="0 is balanced" values={series?.imbalance ?? []} />
      <Figure
        name="Suffering guests"
        value={metricText("suffering", series?.suffering.at(-1))}
        text={`of ${count(shown.guests.id.length, "guest")}`}
        values={series?.suffering ?? []}
      />
    </section>
  );
}

function Figure(props: {
  name: string;
  value: string;
  text: JSX.Element | string;
  tone?: string;
  values?: readonly (number | null)[];
}): JSX.Element {
  return (
    <div class={`figure ${props.tone ? `figure-${props.tone}` : ""}`}>
      <h2>{props.name}</h2>
      <p class="figure-value">{props.value}</p>
      <p class="figure-text">{props.text}</p>
      {props.values ? <Sparkline values={props.values} /> : null}
    </div>
  );
}

function subjectLink(exception: Exception): JSX.Element | null {
  const { subject } = exception;
  if (subject === null) return null;
  const shown = state.value;
  if (shown?.nodes.id.includes(subject)) return <a href={href("nodes", subject)}>{subject}</a>;
  if (shown?.guests.id.includes(subject)) return <a href={href("guests", subject)}>{subject}</a>;
  return <strong>{subject}</strong>;
}

function Exceptions(props: { exceptions: readonly Exception[] }): JSX.Element {
  const [all, setAll] = useState(false);
  const { exceptions } = props;
  const listed = all ? exceptions : exceptions.slice(0, SHOWN_EXCEPTIONS);
  return (
    <Panel title={exceptions.length === 0 ? "Exceptions" : `Exceptions (${exceptions.length})`}>
      {exceptions.length === 0 ? (
        <Empty>None: rules are kept, metrics are current, no node is over a limit.</Empty>
      ) : (
        <ul class="list">
          {listed.map((each, index) => (
            <li key={index}>
              <Mark severity={each.severity} />
              <span>
                {subjectLink(each)} <span class="code">{words(each.code)}</span>
                <span class="detail">{each.detail}</span>
              </span>
            </li>
          ))}
        </ul>
      )}
      {exceptions.length > listed.length ? (
        <button type="button" class="button more" onClick={() => setAll(true)}>
          Show all {exceptions.length}
        </button>
      ) : null}
    </Panel>
  );
}

/** The waiting plan, or the one sentence why there is none. */
function Next(props: {
  state: State;
  steps: Plan["steps"];
  selected: string | null;
  onSelect: (step: string | null) => void;
}): JSX.Element {
  const { plan, nothing } = props.state;
  if (plan === null) {
    return (
      <Panel title="Next" actions={<a href={href("reasons")}>Why nothing</a>}>
        {nothing === null ? (
          <Empty>No decision has been made yet.</Empty>
        ) : (
          <p class="sentence">
            <Badge>{words(nothing.reason)}</Badge> {nothing.sentence}
          </p>
        )}
      </Panel>
    );
  }
  const expires = (Date.parse(plan.expires_at) - Date.parse(props.state.generated_at)) / 1000 - dataAge.value;
  return (
    <Panel title="Next" actions={<a class="button primary" href={href("plans", plan.id)}>Open plan {plan.id}</a>}>
      <p class="sentence">
        <StateBadge state={plan.state} /> {count(plan.step_count, "step")} by {plan.policy}
        {plan.state === "proposed" ? `; nothing moves without an approval, which is possible for ${duration(expires)}, or until a cycle decides otherwise` : ""}. {plan.reason_detail}
      </p>
      <ul class="list steps" aria-label="Steps; select one to see it on the map">
        {props.steps.slice(0, SHOWN_STEPS).map((step) => (
          <li key={step.id}>
            <button
              type="button"
              class="row-button"
              aria-pressed={props.selected === step.id}
              onClick={() => props.onSelect(props.selected === step.id ? null : step.id)}
            >
              <span class="code">{step.id}</span> {step.guest ?? step.kind} <span class="muted">{step.source}</span> → {step.target}
            </button>
          </li>
        ))}
      </ul>
      {plan.step_count > SHOWN_STEPS ? <p class="more muted">and {plan.step_count - SHOWN_STEPS} more steps</p> : null}
    </Panel>
  );
}

function Recent(): JSX.Element {
  const recent = events.value.slice(0, SHOWN_EVENTS);
  return (
    <Panel title="Recent events" actions={<a href={href("history")}>History</a>}>
      {recent.length === 0 ? (
        <Empty>No events are recorded.</Empty>
      ) : (
        <ul class="list events">
          {recent.map((event) => (
            <li key={event.sequence}>
              <time dateTime={event.at} title={dateTime(event.at)}>
                {shortTime(event.at)}
              </time>
              <span class={`level-${event.level.toLowerCase()}`}>{event.message}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
