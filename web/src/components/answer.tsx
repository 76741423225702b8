/** Answers of jobs: what-if, drain preview, placement, replay, drill and backtest. */

import type { ComponentChildren, JSX } from "preact";
import type { Metrics } from "../api/types";
import { count, dateTime, decimal, duration, percent, ratio, withDurations, words } from "../format";
import { metricLabel, metricText } from "../metrics";
import { state } from "../live/state";
import { href, navigate } from "../router";
import { DrainButton, leaversOf, type PreviewResult } from "./drain_button";
import { Badge, Change, Empty, Facts, GuestLink, NodeLink } from "./parts";

const SHOWN = 100;
/** Reason whose detail has only codes and numbers. */
const NO_FEASIBLE_NODE = "no-feasible-node";

interface Peak {
  node: string;
  load: number;
}

interface Load {
  cpu: Peak | null;
  memory: Peak | null;
  imbalance: number | null;
}

interface Failure {
  nodes: string[];
}

interface WhatIfResult {
  scenario: { add: unknown[]; growth: number; fail: string[]; remove: string[] };
  fits: boolean;
  is_proven: boolean;
  placed: { guest: string; source: string; target: string }[];
  unplaced: { guest: string; node: string; reason: string; detail: string }[];
  short_of_memory: string[];
  violations: { new: { rule: string; guests: string[] }[] };
  load: { before: Load; after: Load };
  failures: { tolerated: number; evaluated_nodes: number; single: Failure[]; evaluated_pairs: number | null; pairs: unknown[]; bound: string[] };
  dispensable_nodes: { nodes: string[]; migrations: number };
}

interface NodeLoad {
  cpu: number | null;
  memory: number | null;
}

interface PlaceResult {
  nodes: (string | null)[];
  ranked: { node: string; score: number; before: NodeLoad; after: NodeLoad }[];
  infeasible: { node: string; reason: string; detail: string }[];
}

interface Decision {
  policy: string;
  reason: string;
  detail: string;
  before: Metrics;
  after: Metrics;
  steps: PreviewResult["steps"];
}

interface ReplayResult {
  recorded: Decision;
  replayed: Decision;
}

interface DrillResult {
  survived: boolean;
  failures: {
    nodes: string[];
    survived: boolean;
    guests: { guest: string; target: string | null; downtime: number | null }[];
    cannot_restart: string[];
    broken_rules: string[];
    notes: string[];
  }[];
}

interface BacktestResult {
  record: { snapshots: number; first: string; last: string; hours: number; gaps?: { seconds: number }[] };
  rows: {
    name: string;
    kind?: string;
    migrations: number | null;
    gib?: number | null;
    disk_moves?: number | null;
    disk_gib?: number | null;
    contention_minutes: number | null;
    highest_load_mean: number | null;
    highest_load_peak: number | null;
    imbalance_mean: number | null;
    rules_broken_at_end: number | null;
    regret?: number | null;
    notes?: string[];
  }[];
}

/** Show the result of a job of *kind*, as the API describes it. */
export function Answer(props: { kind: string; result: unknown }): JSX.Element {
  const { kind, result } = props;
  return <div class="answer">{content(kind, result)}</div>;
}

function content(kind: string, result: unknown): JSX.Element {
  switch (kind) {
    case "what-if":
      return <WhatIfAnswer result={result as WhatIfResult} />;
    case "drain-preview":
      return <PreviewAnswer result={result as PreviewResult} />;
    case "place":
      return <PlaceAnswer result={result as PlaceResult} />;
    case "replay":
      return <ReplayAnswer result={result as ReplayResult} />;
    case "drill":
      return <DrillAnswer result={result as DrillResult} />;
    case "backtest":
      return <BacktestAnswer result={result as BacktestResult} />;
    default:
      return <Empty>There is no form for this answer.</Empty>;
  }
}

function Rows(props: {
  title: string;
  head: readonly (readonly [string, "text" | "number"])[];
  rows: readonly (readonly ComponentChildren[])[];
}): JSX.Element | null {
  const { title, head, rows } = props;
  if (rows.length === 0) return null;
  return (
    <section class="nested">
      <h3>{title}</h3>
      <div class="scroll" tabIndex={0} role="group" aria-label={title}>
        <table class="plain">
          <thead>
            <tr>
              {head.map(([name, form]) => (
                <th key={name} scope="col" class={form === "number" ? "numeric" : ""}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, SHOWN).map((cells, row) => (
              <tr key={row}>
                {cells.map((cell, column) => (
                  <td key={column} class={head[column]?.[1] === "number" ? "numeric" : ""}>
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > SHOWN ? <p class="more muted">and {rows.length - SHOWN} more</p> : null}
    </section>
  );
}

function peak(load: Peak | null): string {
  return load === null ? "–" : `${percent(load.load)} (${load.node})`;
}

/** A node: without a link if the cluster has it only in the answer. */
function NodeName(props: { id: string }): JSX.Element {
  const { id } = props;
  return state.value?.nodes.id.includes(id) ? <NodeLink id={id} /> : <>{id}</>;
}

function Nodes(props: { ids: readonly string[] }): JSX.Element {
  const { ids } = props;
  if (ids.length === 0) return <>none</>;
  return (
    <>
      {ids.slice(0, 20).map((id, index) => (
        <span key={id}>
          {index > 0 ? ", " : ""}
          <NodeName id={id} />
        </span>
      ))}
      {ids.length > 20 ? `, and ${ids.length - 20} more` : ""}
    </>
  );
}

function WhatIfAnswer(props: { result: WhatIfResult }): JSX.Element {
  const { fits, placed, unplaced, load, failures, dispensable_nodes: dispensable, violations, short_of_memory } = props.result;
  const changes = isChange(props.result.scenario);
  const loads: [string, ComponentChildren][] = [
    ["Highest CPU load", `${peak(load.before.cpu)} → ${peak(load.after.cpu)}`],
    ["Highest memory load", `${peak(load.before.memory)} → ${peak(load.after.memory)}`],
    ["Imbalance (normalized CV)", <Change before={load.before.imbalance} after={load.after.imbalance} show={ratio} />],
  ];
  return (
    <>
      {changes ? (
        <p class="sentence">
          <Badge tone={fits ? "ok" : "error"}>{fits ? "fits" : "does not fit"}</Badge>{" "}
          {fitText(props.result)}
        </p>
      ) : (
        <p class="sentence">
          {dispensable.nodes.length > 0
            ? <>The cluster could do without {count(dispensable.nodes.length, "node")}: <Nodes ids={dispensable.nodes} />. To empty {dispensable.nodes.length === 1 ? "it" : "them"} takes {count(dispensable.migrations, "migration")}.</>
            : "No node could be drained with all rules kept."}
        </p>
      )}
      <Facts
        items={[
          ...(changes ? loads : []),
          ["Tolerated failures", <Tolerance failures={failures} />],
          ...(changes ? [["Dispensable nodes", <Nodes ids={dispensable.nodes} />] as const] : []),
          ...(short_of_memory.length > 0 ? [["Short of memory", <Nodes ids={short_of_memory} />] as const] : []),
        ]}
      />
      <p class="sentence muted">
        Tolerated failures: so many nodes, whichever they are, can fail at once, and all guests restart by the rules
        {failures.bound.length > 0 ? `, except ${count(failures.bound.length, "guest")} bound to ${failures.bound.length === 1 ? "its" : "their"} node` : ""}. Dispensable nodes: these nodes could be
        drained together with all rules kept{dispensable.nodes.length > 0 ? `, by ${count(dispensable.migrations, "migration")}; fewer failures may be tolerated afterwards` : ""}.{changes ? " Both are about the cluster after the change." : ""}
      </p>
      <Rows title="Guests without a node" head={[["Guest", "text"], ["Reason", "text"], ["Detail", "text"]]} rows={unplaced.map((each) => [<GuestLink id={each.guest} />, words(each.reason), each.reason === NO_FEASIBLE_NODE ? words(each.detail) : each.detail])} />
      <Rows title="Newly violated rules" head={[["Rule", "text"], ["Guests", "text"]]} rows={violations.new.map((each) => [each.rule, each.guests.join(", ")])} />
      <Rows title="Guests that change their node" head={[["Guest", "text"], ["From", "text"], ["To", "text"]]} rows={placed.map((each) => [<GuestLink id={each.guest} />, <NodeName id={each.source} />, <NodeName id={each.target} />])} />
    </>
  );
}

function isChange(scenario: WhatIfResult["scenario"]): boolean {
  const { add, growth, fail, remove } = scenario;
  return growth !== 0 || [add, fail, remove].some((each) => each.length > 0);
}

/** Return what becomes of the guests, in one sentence. */
function fitText(result: WhatIfResult): string {
  const { fits, is_proven, placed, unplaced, short_of_memory, violations } = result;
  if (fits && placed.length === 0) return "Every guest keeps its node.";
  const moved = `${count(placed.length, "guest")} would run on other nodes`;
  if (fits) return `${moved}.`;
  const problems = [
    unplaced.length > 0 ? `${count(unplaced.length, "guest")} would have no node` : "",
    short_of_memory.length > 0 ? `${count(short_of_memory.length, "node")} would be short of memory` : "",
    violations.new.length > 0 ? `${count(violations.new.length, "strict rule")} would be newly violated` : "",
  ].filter(Boolean);
  const limit = is_proven ? "" : " No better placement was found within the limit of the search.";
  return `${problems.join("; ")}; ${moved}.${limit}`;
}

/** How many nodes can fail, and which cannot. */
function Tolerance(props: { failures: WhatIfResult["failures"] }): JSX.Element {
  const { tolerated, evaluated_nodes: nodes, single, evaluated_pairs: pairs } = props.failures;
  if (single.length > 0) return <>none; not tolerated: {single.length === nodes ? `each of ${count(nodes, "node")}` : <Nodes ids={single.flatMap((each) => each.nodes)} />}</>;
  if (tolerated === 1) return <>{pairs === null ? "any 1 node; pairs were not evaluated" : `any 1 node; not tolerated: ${props.failures.pairs.length} of ${count(pairs, "pair")}`}</>;
  return <>{tolerated === 0 ? "none" : `any ${tolerated} nodes; more were not evaluated`}</>;
}

function PreviewAnswer(props: { result: PreviewResult }): JSX.Element {
  const { node, steps, targets, remaining } = props.result;
  const leavers = leaversOf(props.result);
  const others = new Set(steps.map((step) => step.guest)).size - leavers.length;
  return (
    <>
      <p class="sentence">
        <Badge tone={remaining.length === 0 ? "ok" : "warning"}>{remaining.length === 0 ? "node becomes empty" : `${count(remaining.length, "guest")} would stay`}</Badge>{" "}
        {leavers.length} of {count(leavers.length + remaining.length, "guest")} would leave <NodeLink id={node} />{others > 0 ? `, and ${count(others, "guest")} of other nodes would make room` : ""}.
      </p>
      <div class="toolbar more"><DrainButton node={node} drained={false} preview={props.result} onDone={() => navigate(href("nodes", node))} /></div>
      <Rows title="Guests that stay" head={[["Guest", "text"], ["Stays because", "text"], ["What would have to change", "text"]]} rows={remaining.map((each) => [<GuestLink id={each.guest} />, withDurations(each.detail || words(each.reason)), each.remedy ?? ""])} />
      <Rows
        title="Targets afterwards"
        head={[["Node", "text"], ["CPU", "number"], ["Memory", "number"]]}
        rows={targets.map((each) => [<NodeLink id={each.node} />, <Change before={each.cpu_before} after={each.cpu_after} show={percent} />, <Change before={each.memory_before} after={each.memory_after} show={percent} />])}
      />
      <Moves title="Migrations" steps={steps} />
    </>
  );
}

function Moves(props: { title: string; steps: PreviewResult["steps"] }): JSX.Element {
  return <Rows title={props.title} head={[["Step", "text"], ["Guest", "text"], ["From", "text"], ["To", "text"], ["Detail", "text"]]} rows={props.steps.map(moveCells)} />;
}

/** Cells of a step: the storages of a disk, or the nodes of a guest. */
function moveCells(step: PreviewResult["steps"][number]): ComponentChildren[] {
  const { disk, detail } = step;
  const ends = disk ? [disk.source, disk.target] : [<NodeLink id={step.source} />, <NodeLink id={step.target} />];
  return [step.id, <><GuestLink id={step.guest} />{disk ? ` (${disk.name})` : ""}</>, ...ends, withDurations(detail)];
}

function PlaceAnswer(props: { result: PlaceResult }): JSX.Element {
  const { nodes, ranked, infeasible } = props.result;
  const best = nodes[0] ?? null;
  return (
    <>
      <p class="sentence">
        <Badge tone={best === null ? "error" : "ok"}>{best === null ? "no feasible node" : "fits"}</Badge>{" "}
        {best === null ? "No node can start the guest." : <>The best node is <NodeLink id={best} />.</>}
      </p>
      <Rows
        title="Nodes, the best first"
        head={[["Node", "text"], ["Score", "number"], ["CPU", "number"], ["Memory", "number"]]}
        rows={ranked.map((each) => [<NodeLink id={each.node} />, each.score.toFixed(3), <Change before={each.before.cpu} after={each.after.cpu} show={percent} />, <Change before={each.before.memory} after={each.after.memory} show={percent} />])}
      />
      <Rows title="Infeasible nodes" head={[["Node", "text"], ["Reason", "text"], ["Detail", "text"]]} rows={infeasible.map((each) => [<NodeLink id={each.node} />, words(each.reason), each.detail])} />
    </>
  );
}

function ReplayAnswer(props: { result: ReplayResult }): JSX.Element {
  const { recorded, replayed } = props.result;
  const figures = [...new Set([...Object.keys(recorded.after), ...Object.keys(replayed.after)])];
  return (
    <>
      <p class="sentence">
        <Badge>{words(replayed.reason)}</Badge> {replayed.policy}: {count(replayed.steps.length, "step")}. {withDurations(replayed.detail)}
      </p>
      <Rows
        title="After the plan"
        head={[["Figure", "text"], [`recorded: ${recorded.policy}`, "number"], [`replayed: ${replayed.policy}`, "number"]]}
        rows={[["Steps", recorded.steps.length, replayed.steps.length], ...figures.map((name) => [metricLabel(name), metricText(name, recorded.after[name]), metricText(name, replayed.after[name])])]}
      />
      <Moves title={`Steps of ${replayed.policy}`} steps={replayed.steps} />
    </>
  );
}

function longest(guests: DrillResult["failures"][number]["guests"]): string {
  const known = guests.flatMap(({ downtime }) => (downtime === null ? [] : [downtime]));
  return known.length === 0 ? "–" : duration(Math.max(...known));
}

function DrillAnswer(props: { result: DrillResult }): JSX.Element {
  const { survived, failures } = props.result;
  return (
    <>
      <p class="sentence">
        <Badge tone={survived ? "ok" : "error"}>{survived ? "survived" : "not survived"}</Badge>{" "}
        {survived ? "After each failure, all guests start again and no rule is newly violated." : "After a failure, guests cannot start again, or a rule is violated."}
      </p>
      <Rows
        title="Failures"
        head={[["Failed", "text"], ["Result", "text"], ["Guests affected", "number"], ["Longest downtime", "number"], ["Cannot restart", "text"], ["Newly violated rules", "text"]]}
        rows={failures.map((each) => [
          <Nodes ids={each.nodes} />,
          <Badge tone={each.survived ? "ok" : "error"}>{each.survived ? "survived" : "not survived"}</Badge>,
          each.guests.length,
          longest(each.guests),
          each.cannot_restart.join(", "),
          each.broken_rules.join("; "),
        ])}
      />
      <Rows title="Notes" head={[["Failed", "text"], ["Note", "text"]]} rows={failures.flatMap((each) => each.notes.map((note) => [each.nodes.join(", "), note]))} />
    </>
  );
}

/** Titles of the rows without a policy, as in the table of `opendrs backtest`. */
const ROW_TITLES: Record<string, string> = {
  recorded: "(as recorded)",
  static: "(nothing moved)",
  best: "(best plan)",
};

/** What a row of a backtest moved; nothing for the best plan, which is free. */
function cost(row: BacktestResult["rows"][number], disks: boolean): string[] {
  const figures = [decimal(row.migrations, 0), decimal(row.gib), ...(disks ? [decimal(row.disk_moves, 0), decimal(row.disk_gib)] : [])];
  return row.kind === "best" ? figures.map(() => "") : figures;
}

function BacktestAnswer(props: { result: BacktestResult }): JSX.Element {
  const { record, rows } = props.result;
  const gaps = record.gaps ?? [];
  const disks = rows.some((each) => (each.disk_moves ?? 0) > 0);
  const notes = rows.flatMap((each) => each.notes ?? []);
  return (
    <>
      <p class="sentence">
        {count(record.snapshots, "snapshot")} of {duration(3600 * record.hours)}, from {dateTime(record.first)} to {dateTime(record.last)}.
        {gaps.length > 0 ? ` ${count(gaps.length, "gap")} in the record: ${duration(gaps.reduce((sum, each) => sum + each.seconds, 0))} that no figure includes.` : ""}
      </p>
      <Rows
        title="Policies side by side"
        head={[["Policy", "text"], ["Migrations", "number"], ["Migrated (GiB)", "number"], ...(disks ? [["Moved disks", "number"], ["Moved disks (GiB)", "number"]] as const : []), ["Contention (min)", "number"], ["Highest load, mean", "number"], ["Highest load, peak", "number"], ["Imbalance (CV), mean", "number"], ["Rules violated at the end", "number"], ["Regret", "number"]]}
        rows={rows.map((each) => [
          ROW_TITLES[each.kind ?? ""] ?? each.name,
          ...cost(each, disks),
          decimal(each.contention_minutes),
          percent(each.highest_load_mean),
          percent(each.highest_load_peak),
          ratio(each.imbalance_mean),
          decimal(each.rules_broken_at_end, 0),
          ratio(each.regret ?? null),
        ])}
      />
      {notes.length > 0 ? (
        <ul class="list" aria-label="Notes on the policies">
          {notes.map((note) => <li key={note}>{note}</li>)}
        </ul>
      ) : null}
      <p class="sentence muted">
        (as recorded) is what happened, (nothing moved) the cluster without any balancing. (best plan) is the best placement that was found for each decision, reached at once and without migrations: no policy
        can be expected to reach it. Regret is the mean imbalance above that of the best plan.
      </p>
    </>
  );
}
