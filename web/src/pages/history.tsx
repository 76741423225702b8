/** History: cycles on a time slider, the cluster as it was, the decision, the moves. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, query, session } from "../api/client";
import type { Cycle, CycleList, Explanation, MoveList, RecordedCluster as Recorded } from "../api/types";
import { guestCounts } from "../cluster";
import { detailText, metricLabel, metricText } from "../metrics";
import { MoveTable } from "../components/detail_panels";
import { JobRunner } from "../components/job";
import type { Arrow } from "../components/map_drawing";
import { NodeMap } from "../components/node_map";
import { Badge, Choice, Empty, ErrorNote, Heading, Panel, Pending } from "../components/parts";
import { approvalText, PlanBadge, PlanLink } from "../components/plan_state";
import { count, dateTime, words } from "../format";
import { nodeColumns } from "../live/delta";
import { useDocument } from "../live/loader";
import { state } from "../live/state";
import { route, setParameter } from "../router";

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

function Moves(): JSX.Element {
  const run = state.value?.controller.last_cycle?.run;
  const found = useDocument<MoveList>("moves", (abort) => get(`/history/moves${query({ limit: 100 })}`, abort), run);
  return (
    <Panel title="Moves, the newest first">
      {found.value === null ? <Pending error={found.error} reload={found.reload} what="moves" /> : <MoveTable moves={found.value.moves} />}
    </Panel>
  );
}

function CycleHistory(): JSX.Element {
  const [cycles, setCycles] = useState<Cycle[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [loaded, setLoaded] = useState(false);
  const load = async (cursor: string | null): Promise<void> => {
    try {
      const found = await get<CycleList>(`/history/cycles${query({ limit: LIMIT, cursor })}`);
      setCycles((old) => (cursor === null ? found.cycles : [...old, ...found.cycles]));
      setNext(found.next);
      setError(null);
      setLoaded(true);
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
    }
  };
  useEffect(() => void load(null), []);
  // The API lists the newest first; on the slider time runs to the right.
  const ordered = useMemo(() => [...cycles].reverse(), [cycles]);
  const run = route.value.query.get("run");
  const found = ordered.findIndex((cycle) => cycle.run === run);
  const position = found >= 0 ? found : ordered.length - 1;
  const cycle = ordered[position];
  if (error !== null) return <ErrorNote text={error} retry={() => void load(null)} />;
  if (!loaded) return <Empty>Loading cycles …</Empty>;
  if (cycle === undefined) return <Empty>No cycle is recorded yet.</Empty>;
  const choose = (index: number): void => setParameter("run", ordered[index]?.run ?? null);
  return (
    <>
      <Panel title="Time" actions={next !== null ? <button type="button" class="button" onClick={() => void load(next)}>Load older cycles</button> : undefined}>
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
    if (!nodes || !chosen?.source || !chosen.target) return [];
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
                {explained.value.details.map((line, index) => (
                  <li key={index}>{detailText(line)}</li>
                ))}
              </ul>
            )}
            {recorded && recorded.steps.length > 0 ? (
              <ul class="list steps" aria-label="Steps; select one to see it on the map">
                {recorded.steps.slice(0, 30).map((each) => (
                  <li key={each.id}>
                    <button type="button" class="row-button" aria-pressed={step === each.id} onClick={() => setStep(step === each.id ? null : each.id)}>
                      <span class="code">{each.id}</span> {each.guest ?? each.kind} <span class="muted">{each.source}</span> → {each.target}
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
  const [policy, setPolicy] = useState("balance");
  return (
    <Panel title="Replay with another policy">
      <JobRunner kind="replay" request={{ run: props.run, policy }} action="Replay">
        <label class="field">
          <span>Policy</span>
          <select class="input" value={policy} onChange={(event) => setPolicy(event.currentTarget.value)}>
            {POLICIES.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </JobRunner>
    </Panel>
  );
}

export const POLICIES = ["balance", "auto-rebalance", "threshold-rebalance", "pressure", "consolidate", "optimize"];
