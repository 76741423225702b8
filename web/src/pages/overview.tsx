/** Overview: who acts, what is wrong, how loaded and even, what is next, what happened. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get } from "../api/client";
import type { ClusterSeries, Exception, LogEvent, Mode, Plan } from "../api/types";
import { IMBALANCE_TEXT, metricText } from "../metrics";
import { Chart, Sparkline, type Line } from "../components/chart";
import type { Arrow } from "../components/map_drawing";
import { NodeMap } from "../components/node_map";
import { EventText } from "../components/event_text";
import { Observed } from "../components/observed";
import { isRunning } from "../components/step_list";
import { Empty, Mark, Panel, ReasonText, StateBadge, StepPath } from "../components/parts";
import { partText, PlanBadge } from "../components/plan_state";
import { count, dateTime, duration, percent, shortTime, withDurations, words } from "../format";
import { secondsUntil } from "../live/clock";
import type { State } from "../live/delta";
import { useDocument } from "../live/loader";
import { controllerHealth, cycleAge, events, planChanges, state } from "../live/state";
import { href } from "../router";
import { isPhone } from "../screen";
import { guestCounts, worstLoad, type WorstLoad } from "../cluster";

const LINES: readonly Line[] = [
  { name: "highest_cpu", label: "CPU" },
  { name: "highest_memory", label: "Memory" },
];
const IMBALANCE: readonly Line[] = [{ name: "imbalance", label: "Imbalance" }];
const SUFFERING: readonly Line[] = [{ name: "suffering", label: "Suffering guests" }];
const SHOWN_EXCEPTIONS = 8;
const SHOWN_STEPS = 6;
const SHOWN_EVENTS = 10;
const DECISION = "decision-made";

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
          {isPhone.value ? <Recent /> : null}
        </div>
        <div class="stack">
          <Panel title={`Nodes (${shown.nodes.id.length})`} actions={<Observed />}>
            <NodeMap nodes={shown.nodes} guestCounts={counts} exceptions={shown.exceptions} arrows={arrows} />
          </Panel>
          <div class="charts">
            <Panel title="Highest load of a node">
              <Chart label="Highest load of a node" series={series.value} lines={LINES} show={percent} />
            </Panel>
            <Panel title="Imbalance">
              <Chart label="Imbalance" series={series.value} lines={IMBALANCE} show={(value) => metricText("imbalance", value)} />
            </Panel>
            <Panel title="Suffering guests">
              <Chart label="Suffering guests" series={series.value} lines={SUFFERING} whole show={(value) => metricText("suffering", value)} />
            </Panel>
          </div>
          {isPhone.value ? null : <Recent />}
        </div>
      </div>
    </>
  );
}

function arrowsOf(shown: State, plan: Plan | null, step: string | null): Arrow[] {
  const found = plan?.steps.find((each) => each.id === step);
  if (!found?.source || !found.target || found.source === found.target) return [];
  const source = shown.nodes.id.indexOf(found.source);
  const target = shown.nodes.id.indexOf(found.target);
  return source < 0 || target < 0 ? [] : [{ source, target }];
}

/** The node with the highest load, of those that are online, as in its series. */
function worstNode(shown: State): ({ id: string } & WorstLoad) | null {
  let worst: ({ id: string } & WorstLoad) | null = null;
  shown.nodes.id.forEach((id, node) => {
    if (shown.nodes.state[node] !== "online") return;
    const found = worstLoad(shown.nodes, node);
    if (found !== null && (worst === null || found.load > worst.load)) worst = { id, ...found };
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
      <Figure name="Mode" value={words(mode.mode)} text={mode.text} />
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
        text={controller.last_cycle ? `decided: ${words(controller.last_cycle.reason)}; one cycle every ${duration(controller.interval)}` : shown.plan?.state === "running" ? "the first one carries out its plan" : ""}
      />
      <NextCycle state={shown} />
      <Figure
        name="Worst node"
        value={worst ? percent(worst.load) : "–"}
        text={worst ? <><a href={href("nodes", worst.id)}>{worst.id}</a> {worst.resource}</> : "no measurement"}
        values={series?.[worst?.resource === "memory" ? "highest_memory" : "highest_cpu"] ?? []}
        show={percent}
      />
      <Figure name="Imbalance" value={metricText("imbalance", series?.imbalance.at(-1))} text={IMBALANCE_TEXT} values={series?.imbalance ?? []} show={(value) => metricText("imbalance", value)} />
      <Figure
        name="Suffering guests"
        value={metricText("suffering", series?.suffering.at(-1))}
        text={`of ${count(shown.guests.id.length, "guest")}`}
        values={series?.suffering ?? []}
        show={(value) => metricText("suffering", value)}
      />
    </section>
  );
}

/** When the next cycle takes place, or what comes before it. */
function NextCycle(props: { state: State }): JSX.Element {
  const { controller, plan, pause } = props.state;
  const due = controller.next_cycle_at;
  if (controllerHealth.value === "stopped") return <Figure name="Next cycle" value="none" text="no controller is running" />;
  if (due === null) {
    const running = plan?.state === "running" ? <>when plan <a href={href("plans", plan.id)}>{plan.id}</a> has ended</> : "as soon as the cluster responds";
    return <Figure name="Next cycle" value="later" text={running} />;
  }
  const seconds = secondsUntil(due);
  const then = pause ? "observes; paused, so nothing starts" : plan?.state === "proposed" ? <PlanCheck id={plan.id} /> : NEXT_TEXTS[props.state.mode.mode];
  return <Figure name="Next cycle" value={seconds >= 1 ? `in ${duration(seconds)}` : "now"} text={<>{shortTime(due)}: {then}</>} />;
}

function PlanCheck(props: { id: string }): JSX.Element {
  return <>checks that plan <a href={href("plans", props.id)}>{props.id}</a> is still valid</>;
}

const NEXT_TEXTS: Record<Mode, string> = {
  observe: "decides, starts nothing",
  advise: "decides, may propose a plan",
  automatic: "decides, may start a plan",
};

function Figure(props: {
  name: string;
  value: string;
  text: JSX.Element | string;
  tone?: string;
  values?: readonly (number | null)[];
  show?: (value: number) => string;
}): JSX.Element {
  return (
    <div class={`figure ${props.tone ? `figure-${props.tone}` : ""}`}>
      <h2>{props.name}</h2>
      <p class="figure-value">{props.value}</p>
      <p class="figure-text">{props.text}</p>
      {props.values && props.show ? <Sparkline values={props.values} show={props.show} /> : null}
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

/** The cause of an exception, without a repetition of its subject. */
function detailOf(exception: Exception): string {
  const { subject, detail } = exception;
  const start = `${subject}: `;
  return subject !== null && detail.startsWith(start) ? detail.slice(start.length) : detail;
}

function Exceptions(props: { exceptions: readonly Exception[] }): JSX.Element {
  const [all, setAll] = useState(false);
  const { exceptions } = props;
  const listed = all ? exceptions : exceptions.slice(0, SHOWN_EXCEPTIONS);
  return (
    <Panel title={exceptions.length === 0 ? "Exceptions" : `Exceptions (${exceptions.length})`}>
      {exceptions.length === 0 ? (
        <Empty>None: rules are kept, metrics are current, no node or storage is over a limit.</Empty>
      ) : (
        <ul class="list">
          {listed.map((each, index) => (
            <li key={index}>
              <Mark severity={each.severity} />
              <span>
                {subjectLink(each)} <span class="code">{words(each.code)}</span>
                <span class="detail">{withDurations(detailOf(each))}</span>
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
            <ReasonText code={nothing.reason} text={nothing.sentence} />
          </p>
        )}
      </Panel>
    );
  }
  const expires = secondsUntil(plan.expires_at);
  const ended = (step: Plan["steps"][number]): boolean => step.outcome !== null;
  // Of a running plan, those that have ended come last.
  const steps = [...props.steps.filter((step) => !ended(step)), ...props.steps.filter(ended)];
  return (
    <Panel title="Next" actions={<a class="button primary" href={href("plans", plan.id)}>Open plan {plan.id}</a>}>
      <p class="sentence">
        <PlanBadge plan={plan} /> {partText(plan) || count(plan.step_count, "step")} by {plan.policy}{plan.reason_detail === "" ? "" : `: ${withDurations(plan.reason_detail)}`}.
        {plan.state === "proposed" ? ` Nothing moves without an approval, which is possible for ${duration(expires)}, as long as the plan is valid.` : ""}
      </p>
      <ul class="list steps" aria-label="Steps; select one to see it on the map">
        {steps.slice(0, SHOWN_STEPS).map((step) => (
          <li key={step.id}>
            <button
              type="button"
              class="row-button"
              aria-pressed={props.selected === step.id}
              onClick={() => props.onSelect(props.selected === step.id ? null : step.id)}
            >
              <span class="code">{step.id}</span> <StepPath step={step} />{" "}
              {step.outcome !== null ? <StateBadge state={step.outcome} /> : isRunning(step) ? <StateBadge state="running" /> : null}
            </button>
          </li>
        ))}
      </ul>
      {plan.step_count > SHOWN_STEPS ? <p class="more muted">and {plan.step_count - SHOWN_STEPS} more steps</p> : null}
    </Panel>
  );
}

interface Summarized {
  event: LogEvent;
  /** Number of the earlier decisions that it stands for. */
  alike: number;
}

/** Return the events, with one for successive decisions of the same kind. */
function summarized(all: readonly LogEvent[]): Summarized[] {
  const found: Summarized[] = [];
  for (const event of all) {
    const newer = found.at(-1);
    if (newer !== undefined && isAlike(newer.event, event)) newer.alike += 1;
    else found.push({ event, alike: 0 });
  }
  return found;
}

function isAlike(newer: LogEvent, older: LogEvent): boolean {
  if (newer.code !== DECISION || older.code !== DECISION || newer.level !== older.level) return false;
  const same = (name: string): boolean => newer.facts[name] === older.facts[name];
  return same("policy") && same("reason");
}

function Recent(): JSX.Element {
  const recent = summarized(events.value).slice(0, SHOWN_EVENTS);
  return (
    <Panel title="Recent events" actions={<span class="links"><a href={`${href("history")}?view=moves`}>Moves of the last 24 hours</a> <a href={href("history")}>History</a></span>}>
      {recent.length === 0 ? (
        <Empty>No events are recorded.</Empty>
      ) : (
        <ul class="list events">
          {recent.map(({ event, alike }) => (
            <li key={event.sequence}>
              <time dateTime={event.at} title={dateTime(event.at)}>
                {shortTime(event.at)}
              </time>
              <span>
                <EventText event={event} />
                {alike > 0 ? <span class="muted"> and {count(alike, "earlier decision")} alike</span> : null}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
