/** Drills and backtests: start one, and the list of all jobs with their results. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, remove, sentence } from "../api/client";
import type { Job, JobList, JobSummary } from "../api/types";
import { Answer } from "../components/answer";
import { Empty, ErrorNote, Heading, Panel, Pending, StateBadge } from "../components/parts";
import { dateTime, words } from "../format";
import { clock } from "../live/clock";
import { isOpen } from "../live/job";
import { useDocument } from "../live/loader";
import { state } from "../live/state";
import { POLICIES } from "../components/replay";

const REFRESH = 2_000;
const PERIODS: readonly (readonly [string, string])[] = [
  ["", "everything that is recorded"],
  ["86400", "the last day"],
  ["604800", "the last week"],
];
const INTERVALS: readonly (readonly [string, string])[] = [
  ["0", "at each recorded cycle"],
  ["900", "every 15 minutes"],
  ["3600", "every hour"],
];

export function Jobs(): JSX.Element {
  const [selected, setSelected] = useState<string | null>(null);
  const [open, setOpen] = useState(false);
  const version = open ? Math.floor(clock.value / REFRESH) : 0;
  const found = useDocument<JobList>("jobs", (abort) => get("/jobs", abort), version);
  const jobs = found.value?.jobs;
  const isBusy = jobs?.some(isOpen) ?? false;
  useEffect(() => setOpen(isBusy), [isBusy]);
  const started = (job: Job): void => {
    setSelected(job.id);
    found.reload();
  };
  return (
    <>
      <Heading title="Drills and backtests" text="Computed one after the other from the recorded cluster and load, each for at most an hour. Nothing is changed. Results are kept for an hour." />
      <div class="columns">
        <Drill onStarted={started} />
        <Backtest onStarted={started} />
      </div>
      <Panel title="Jobs">
        {jobs === undefined ? (
          <Pending error={found.error} reload={found.reload} what="jobs" />
        ) : jobs.length === 0 ? (
          <Empty>No job was started in the last hour.</Empty>
        ) : (
          <JobTable jobs={jobs} selected={selected} onSelect={setSelected} onChange={found.reload} />
        )}
      </Panel>
      {selected !== null ? <Result key={selected} id={selected} ended={jobs?.find((each) => each.id === selected)?.ended_at ?? null} /> : null}
    </>
  );
}

/** A form that starts a job with a request. */
function Start(props: {
  title: string;
  action: string;
  request: Record<string, unknown>;
  disabled?: boolean;
  onStarted: (job: Job) => void;
  children: ComponentChildren;
}): JSX.Element {
  const [error, setError] = useState<string | null>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setError(null);
    try {
      props.onStarted(await post<Job>("/jobs", props.request));
    } catch (problem) {
      setError(sentence(problem));
    }
  };
  return (
    <Panel title={props.title}>
      <form class="form" onSubmit={(event) => void submit(event)}>
        {props.children}
        <div class="toolbar">
          <button type="submit" class="button primary" disabled={props.disabled ?? false}>
            {props.action}
          </button>
        </div>
      </form>
      {error !== null ? <ErrorNote text={error} /> : null}
    </Panel>
  );
}

function Drill(props: { onStarted: (job: Job) => void }): JSX.Element {
  const [node, setNode] = useState("");
  const [assumed, setAssumed] = useState(true);
  const request = { kind: "drill", nodes: node === "" ? [] : [node], assume_ha: assumed };
  return (
    <Start title="Failover drill" action="Start the drill" request={request} onStarted={props.onStarted}>
      <label class="field">
        <span>Node that fails</span>
        <select class="input" value={node} onChange={(event) => setNode(event.currentTarget.value)}>
          <option value="">each node alone</option>
          {state.value?.nodes.id.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      </label>
      <label class="field-inline">
        <input type="checkbox" checked={assumed} onChange={() => setAssumed(!assumed)} />
        <span>Treat all guests as managed by the HA manager</span>
      </label>
    </Start>
  );
}

function Backtest(props: { onStarted: (job: Job) => void }): JSX.Element {
  const [policies, setPolicies] = useState<readonly string[]>([POLICIES[0] ?? ""]);
  const [since, setSince] = useState("");
  const [every, setEvery] = useState("0");
  const toggle = (name: string): void => setPolicies(policies.includes(name) ? policies.filter((each) => each !== name) : [...policies, name]);
  const request = { kind: "backtest", policies, every: Number(every), ...(since === "" ? {} : { since: Number(since) }) };
  return (
    <Start title="Backtest" action="Start the backtest" request={request} disabled={policies.length === 0} onStarted={props.onStarted}>
      <fieldset class="choices">
        <legend>Policies</legend>
        {POLICIES.map((name) => (
          <label key={name} class="field-inline">
            <input type="checkbox" checked={policies.includes(name)} onChange={() => toggle(name)} />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      <label class="field">
        <span>Load of</span>
        <select class="input" value={since} onChange={(event) => setSince(event.currentTarget.value)}>
          <Options of={PERIODS} />
        </select>
      </label>
      <label class="field">
        <span>Decisions</span>
        <select class="input" value={every} onChange={(event) => setEvery(event.currentTarget.value)}>
          <Options of={INTERVALS} />
        </select>
      </label>
    </Start>
  );
}

function Options(props: { of: readonly (readonly [string, string])[] }): JSX.Element {
  return (
    <>
      {props.of.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </>
  );
}

function JobTable(props: {
  jobs: readonly JobSummary[];
  selected: string | null;
  onSelect: (id: string) => void;
  onChange: () => void;
}): JSX.Element {
  const cancel = (id: string): void => void remove(`/jobs/${encodeURIComponent(id)}`).then(props.onChange, props.onChange);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Jobs">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Started</th>
            <th scope="col">Job</th>
            <th scope="col">State</th>
            <th scope="col">Ended</th>
            <th scope="col">Action</th>
          </tr>
        </thead>
        <tbody>
          {props.jobs.map((job) => (
            <tr key={job.id}>
              <td class="nowrap">{dateTime(job.created_at)}</td>
              <td>{words(job.kind)}</td>
              <td><StateBadge state={job.state} /> {job.progress}</td>
              <td class="nowrap">{dateTime(job.ended_at)}</td>
              <td>
                {isOpen(job) ? (
                  <button type="button" class="button" onClick={() => cancel(job.id)}>Cancel</button>
                ) : (
                  <button type="button" class="button" aria-pressed={props.selected === job.id} onClick={() => props.onSelect(job.id)}>Result</button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Result(props: { id: string; ended: string | null }): JSX.Element {
  const address = `/jobs/${encodeURIComponent(props.id)}`;
  const found = useDocument<Job>(address, (abort) => get(address, abort), props.ended);
  const job = found.value;
  if (job === null) return <Panel title="Result"><Pending error={found.error} reload={found.reload} what="the job" /></Panel>;
  return (
    <Panel title={`Result: ${words(job.kind)}`} actions={<StateBadge state={job.state} />}>
      {isOpen(job) ? <Empty>The job is {job.state} …</Empty> : null}
      {job.state === "failed" ? <ErrorNote text={job.detail || "The job failed."} /> : null}
      {job.state === "cancelled" ? <Empty>The job was cancelled.</Empty> : null}
      {job.state === "done" ? <Answer kind={job.kind} result={job.result} /> : null}
    </Panel>
  );
}
