/** History: cycles on a time slider, the cluster as it was, the decision, the moves. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, query, sentence, session } from "../api/client";
import type { Cycle, CycleList, Explanation, RecordedCluster as Recorded } from "../api/types";
import { guestCounts } from "../cluster";
import { detailLines, metricLabel, metricText } from "../metrics";
import { ReplayRunner } from "../components/replay";
import type { Arrow } from "../components/map_drawing";
import { NodeMap } from "../components/node_map";
import { Badge, Choice, Empty, ErrorNote, Heading, Panel, Pending, StepPath } from "../components/parts";
import { approvalText, PlanBadge, PlanLink } from "../components/plan_state";
import { count, dateTime, words } from "../format";
import { nodeColumns } from "../live/delta";
import { useDocument } from "../live/loader";
import { state } from "../live/state";
import { route, setParameter } from "../router";
import { Moves } from "./moves";

const LIMIT = 500;

export function History(): JSX.Element {
  const view = route.value.query.get("view") === "moves" ? "moves" : "cycles";
  return (
    <>
      <Heading title="History" text="The cluster as it was, the decisions that were made, and what was moved.">
        <Choice label="View" value={view} options={[["cycles", "Cycles"], ["moves", "Moves"]]} onChange={(value) => setParameter("view", value)} />
      </Heading>
      {view === "moves" ? <Moves /> : <CycleHistory />}
    </>
  );
}

/** The recorded cycles around a time, or the newest ones. */
interface Cycles {
  /** In the order of time, as on the slider. */
  ordered: readonly Cycle[];
  hasOlder: boolean;
  loaded: boolean;
  error: string | null;
  loadOlder: () => void;
  retry: () => void;
}

function useCycles(at: string | null): Cycles {
  const [cycles, setCycles] = useState<Cycle[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [loaded, setLoaded] = useState(false);
  const interval = state.value?.controller.interval ?? 0;
  // So that the slider leads to both sides of the time.
  const until = at === null ? null : new Date(Date.parse(at) + (1_000 * interval * LIMIT) / 2).toISOString();
  const load = async (cursor: string | null): Promise<void> => {
    try {
      const found = await get<CycleList>(`/history/cycles${query({ limit: LIMIT, cursor, until })}`);
      setCycles((old) => (cursor === null ? found.cycles : [...old, ...found.cycles]));
      setNext(found.next);
      setError(null);
      setLoaded(true);
    } catch (problem) {
      setError(sentence(problem));
    }
  };
  useEffect(() => void load(null), [at]);
  const ordered = useMemo(() => [...cycles].reverse(), [cycles]);
  return { ordered, hasOlder: next !== null, loaded, error, loadOlder: () => void load(next), retry: () => void load(null) };
}

/** Return the position of a run; without it, of the last cycle until a time. */
function positionOf(cycles: readonly Cycle[], run: string | null, at: string | null): number {
  const found = cycles.findIndex((cycle) => cycle.run === run);
  if (found >= 0) return found;
  if (at === null) return cycles.length - 1;
  const end = Date.parse(at);
  return Math.max(0, cycles.filter((cycle) => Date.parse(cycle.decided_at) <= end).length - 1);
}

function CycleHistory(): JSX.Element {
  const chosen = route.value.query;
  const asked = chosen.get("at");
  const at = asked === null || Number.isNaN(Date.parse(asked)) ? null : asked;
  const { ordered, hasOlder, loaded, error, loadOlder, retry } = useCycles(at);
  const position = positionOf(ordered, chosen.get("run"), at);
  const cycle = ordered[position];
  if (error !== null) return <ErrorNote text={error} retry={retry} />;
  if (!loaded) return <Empty>Loading cycles …</Empty>;
  const choose = (index: number): void => setParameter("run", ordered[index]?.run ?? null);
  const chooseTime = (time: string | null): void => {
    setParameter("run", null);
    setParameter("at", time);
  };
  const actions = (
    <div class="heading-actions">
      {hasOlder ? <button type="button" class="button" onClick={loadOlder}>Load older cycles</button> : null}
      {at !== null ? <button type="button" class="button" onClick={() => chooseTime(null)}>Newest</button> : null}
      <TimeForm key={at ?? ""} at={at ?? cycle?.decided_at ?? null} onChange={chooseTime} />
    </div>
  );
  if (cycle === undefined) return <Panel title="Time" actions={actions}><Empty>No cycle is recorded until then.</Empty></Panel>;
  return (
    <>
      <Panel title="Time" actions={actions}>
        <div class="slider">
          <button type="button" class="button" disabled={position === 0} onClick={() => choose(position - 1)}>Earlier</button>
          <input
            type="range"
            min={0}
            max={ordered.length - 1}
            value={position}
            aria-label="Cycle"
            aria-valuetext={`${dateTime(cycle.decided_at)}, ${words(cycle.reason)}`}
            onInput={(event) => choose(Number(event.currentTarget.value))}
          />
          <button type="button" class="button" disabled={position === ordered.length - 1} onClick={() => choose(position + 1)}>Later</button>
          <strong class="number">{dateTime(cycle.decided_at)}</strong>
          <span class="muted number">
            {position + 1} of {ordered.length}
          </span>
        </div>
        <p class="sentence">
          <Badge>{words(cycle.reason)}</Badge> {cycle.detail} <span class="muted">({cycle.policy}, {count(cycle.steps, "step")})</span>
        </p>
        {cycle.plans.map((plan) => (
          <p key={plan.id} class="sentence">
            Plan <PlanLink plan={plan} /> <PlanBadge plan={plan} /> {plan.approved_by === null ? approvalText(plan) : `approved by ${plan.approved_by}`}
          </p>
        ))}
      </Panel>
      <RecordedCluster cycle={cycle} />
    </>
  );
}

/** Field for a time, in the time zone of the browser. */
function TimeForm(props: { at: string | null; onChange: (time: string) => void }): JSX.Element {
  const [text, setText] = useState(props.at === null ? "" : dateTime(props.at).slice(0, 16).replace(" ", "T"));
  return (
    <form
      class="heading-actions"
      onSubmit={(event) => {
        event.preventDefault();
        // The whole minute belongs to it.
        props.onChange(new Date(Date.parse(text) + 59_999).toISOString());
      }}
    >
      <input class="input" type="datetime-local" required aria-label="Time of the cycle" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit" class="button">Show this time</button>
    </form>
  );
}

function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), 150);
    return () => window.clearTimeout(timer);
  }, [value]);
  return settled;
}

function RecordedCluster(props: { cycle: Cycle }): JSX.Element {
  const { cycle } = props;
  const run = useSettled(cycle.run);
  const kept = cycle.inputs !== "dropped";
  const address = `/history/cycles/${encodeURIComponent(run)}`;
  const found = useDocument<Recorded | null>(kept ? address : "", async (abort) => (kept ? get<Recorded>(address, abort) : null), 0, true);
  const explained = useDocument<Explanation>(`explanation ${run}`, (abort) => get(`/explanations${query({ run })}`, abort), 0, true);
  const [step, setStep] = useState<string | null>(null);
  const recorded = found.value;
  useEffect(() => setStep(null), [run]);
  const nodes = useMemo(() => (recorded ? nodeColumns(recorded.nodes) : null), [recorded]);
  const counts = useMemo(() => (recorded ? guestCounts(recorded.guests, recorded.nodes.id.length) : []), [recorded]);
  const arrows = useMemo<Arrow[]>(() => {
    const chosen = recorded?.steps.find((each) => each.id === step);
    if (!nodes || !chosen?.source || !chosen.target || chosen.source === chosen.target) return [];
    return [{ source: nodes.id.indexOf(chosen.source), target: nodes.id.indexOf(chosen.target) }];
  }, [recorded, nodes, step]);
  return (
    <>
      <div class="overview">
        <Panel title="The cluster as it was" actions={recorded ? <SummaryText cycle={recorded} /> : undefined}>
          {!kept ? (
            <Empty>This cycle has kept its decision, but not its inputs.</Empty>
          ) : nodes === null ? (
            <Pending error={found.error} reload={found.reload} what="the cycle" />
          ) : (
            <NodeMap nodes={nodes} guestCounts={counts} exceptions={[]} arrows={arrows} />
          )}
        </Panel>
        <div class="stack beside">
          <Panel title="The decision">
            {explained.value === null ? (
              <Pending error={explained.error} reload={explained.reload} what="the decision" />
            ) : (
              <ul class="details">
                {detailLines(explained.value.details).map((line, index) => (
                  <li key={index}>{line}</li>
                ))}
              </ul>
            )}
            {recorded && recorded.steps.length > 0 ? (
              <ul class="list steps" aria-label="Steps; select one to see it on the map">
                {recorded.steps.slice(0, 30).map((each) => (
                  <li key={each.id}>
                    <button type="button" class="row-button" aria-pressed={step === each.id} onClick={() => setStep(step === each.id ? null : each.id)}>
                      <span class="code">{each.id}</span> <StepPath step={each} />
                      {each.outcome ? <span class="muted"> {words(each.outcome)}</span> : null}
                    </button>
                  </li>
                ))}
              </ul>
            ) : null}
          </Panel>
          {kept && session.value ? <Replay run={run} /> : null}
        </div>
      </div>
    </>
  );
}

/** The figures of the policy before and after its plan. */
function SummaryText(props: { cycle: Recorded }): JSX.Element {
  const { before, steps, after } = props.cycle;
  const figures = Object.keys(before).slice(0, 2);
  return (
    <span class="muted">
      {figures.map((name, index) => (
        <span key={name}>
          {index > 0 ? ", " : ""}
          {metricLabel(name)} {metricText(name, before[name])}
          {steps.length > 0 ? ` → ${metricText(name, after[name])}` : ""}
        </span>
      ))}
    </span>
  );
}

function Replay(props: { run: string }): JSX.Element {
  return (
    <Panel title="Replay with another policy">
      <ReplayRunner run={props.run} action="Replay" />
    </Panel>
  );
}
