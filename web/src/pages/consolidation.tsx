/** Consolidation: power and energy, nodes that are powered off, and power actions. */

import type { JSX } from "preact";
import { get } from "../api/client";
import type { ClusterSeries, Consolidation as Document } from "../api/types";
import { Chart, type Line } from "../components/chart";
import { JobRunner } from "../components/job";
import { Change, Empty, Facts, Heading, NodeLink, Panel, Pending, StateBadge } from "../components/parts";
import { count, dateTime, shortTime, words } from "../format";
import { useDocument } from "../live/loader";
import { state } from "../live/state";

const SHOWN = 200;
const POWER: readonly Line[] = [{ name: "power", label: "Power" }];
const ONLINE: readonly Line[] = [{ name: "online_nodes", label: "Online nodes" }];

function watts(value: number | null | undefined): string {
  return value == null ? "–" : `${Math.round(value)} W`;
}

/** Return the energy in kWh between the points of known power; null if there are fewer than two. */
function energyOf(series: ClusterSeries): number | null {
  let energy: number | null = null;
  for (let i = 1; i < series.at.length; i += 1) {
    const before = series.power[i - 1] ?? null;
    const after = series.power[i] ?? null;
    if (before === null || after === null) continue;
    const hours = (Date.parse(series.at[i] ?? "") - Date.parse(series.at[i - 1] ?? "")) / 3_600_000;
    energy = (energy ?? 0) + (hours * (before + after)) / 2000;
  }
  return energy;
}

function energyText(kilowattHours: number): string {
  if (kilowattHours < 1) return `${(1000 * kilowattHours).toFixed(0)} Wh`;
  return `${kilowattHours.toFixed(kilowattHours < 10 ? 2 : 0)} kWh`;
}

/** The energy of the recorded time; nothing if the power is not known. */
function energyItem(series: ClusterSeries | null): [string, string][] {
  const energy = series === null ? null : energyOf(series);
  const known = series?.at.filter((_, index) => series.power[index] != null) ?? [];
  if (energy === null) return [];
  return [[`Energy since ${shortTime(known[0] ?? "")} (estimated)`, energyText(energy)]];
}

const STATE_NAMES: Record<string, string> = {
  online: "on",
  maintenance: "draining or drained",
  offline: "off",
  excluded: "excluded",
  unknown: "not responding",
};

/** Return the nodes by state, which together are all. */
function nodesText(states: Document["states"]): string {
  const all = Object.values(states).reduce((sum, each) => sum + each, 0);
  const parts = Object.keys(STATE_NAMES).filter((name) => states[name] || name === "online" || name === "offline");
  return `${all}: ${parts.map((name) => `${states[name] ?? 0} ${STATE_NAMES[name]}`).join(", ")}`;
}

export function Consolidation(): JSX.Element {
  const run = state.value?.controller.last_cycle?.run;
  const series = useDocument<ClusterSeries>("series", (abort) => get("/history/series", abort), run ?? "");
  const found = useDocument<Document>("consolidation", (abort) => get("/consolidation", abort), run);
  const shown = found.value;
  return (
    <>
      <Heading title="Consolidation" text="Serve the load with fewer nodes: power, nodes that are off, nodes that could be drained." />
      {shown === null ? (
        <Pending error={found.error} reload={found.reload} what="the power of the cluster" />
      ) : (
        <>
          <Facts
            items={[
              ["Policy", shown.consolidates ? shown.policy : `${shown.policy} (does not consolidate)`],
              ["Nodes", nodesText(shown.states)],
              ["Online without guests", count(shown.empty_nodes.length, "node")],
              ...(shown.power === null ? [] : [watts(shown.power_after ?? shown.power) === watts(shown.power) ? ["Power (estimated)", watts(shown.power)] as const : ["Power, now → after the plan (estimated)", <Change before={shown.power} after={shown.power_after} show={watts} />] as const]),
              ...energyItem(series.value),
            ]}
          />
          <div class="columns">
            <Panel title="Power over time (estimated)">
              {series.value?.power.every((each) => each === null) ? (
                <Empty>Only the policy consolidate estimates the power.</Empty>
              ) : (
                <Chart label="Power over time" series={series.value} lines={POWER} show={watts} />
              )}
            </Panel>
            <Panel title="Online nodes">
              <Chart label="Online nodes" series={series.value} lines={ONLINE} whole show={(value) => (value == null ? "–" : String(value))} />
            </Panel>
          </div>
          <div class="columns">
            <Off document={shown} />
            <EmptyNodes document={shown} />
          </div>
          <Actions document={shown} />
        </>
      )}
      <Panel title="Nodes that could be drained together">
        <JobRunner kind="what-if" request={{}} action="Find dispensable nodes" />
      </Panel>
    </>
  );
}

function Off(props: { document: Document }): JSX.Element {
  const { sleeping } = props.document;
  return (
    <Panel title={`Powered off (${sleeping.length})`}>
      {sleeping.length === 0 ? (
        <Empty>Every node is on.</Empty>
      ) : (
        <ul class="list">
          {sleeping.slice(0, SHOWN).map((each) => (
            <li key={each.node}>
              <NodeLink id={each.node} /> <span class="muted">{each.since === null ? "" : `since ${dateTime(each.since)}`}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function EmptyNodes(props: { document: Document }): JSX.Element {
  const { empty_nodes } = props.document;
  return (
    <Panel title={`Online without guests (${empty_nodes.length})`}>
      {empty_nodes.length === 0 ? (
        <Empty>Every online node has guests.</Empty>
      ) : (
        <ul class="list">
          {empty_nodes.slice(0, SHOWN).map((node) => (
            <li key={node}>
              <NodeLink id={node} />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Actions(props: { document: Document }): JSX.Element {
  const { actions } = props.document;
  return (
    <Panel title="Power actions">
      {actions.length === 0 ? (
        <Empty>No node was powered on or off.</Empty>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Started</th>
              <th scope="col">Node</th>
              <th scope="col">Action</th>
              <th scope="col">Outcome</th>
            </tr>
          </thead>
          <tbody>
            {actions.slice(0, SHOWN).map((each) => (
              <tr key={`${each.run} ${each.node} ${each.started_at}`}>
                <td class="nowrap">{dateTime(each.started_at)}</td>
                <td><NodeLink id={each.node} /></td>
                <td>{words(each.kind)}</td>
                <td title={each.detail}><StateBadge state={each.outcome ?? "running"} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
