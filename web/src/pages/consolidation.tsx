/** Consolidation: power, nodes that are powered off, and power actions. */

import type { JSX } from "preact";
import { get } from "../api/client";
import type { Consolidation as Document } from "../api/types";
import { JobRunner } from "../components/job";
import { Change, Empty, Facts, Heading, NodeLink, Panel, Pending, StateBadge } from "../components/parts";
import { count, dateTime, words } from "../format";
import { useDocument } from "../live/loader";
import { state } from "../live/state";

const SHOWN = 200;

function watts(value: number | null | undefined): string {
  return value == null ? "–" : `${Math.round(value)} W`;
}

export function Consolidation(): JSX.Element {
  const run = state.value?.controller.last_cycle?.run;
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
              ["Online", count(shown.online_nodes, "node")],
              ["Powered off", count(shown.sleeping.length, "node")],
              ["Online without guests", count(shown.empty_nodes.length, "node")],
              ["Power (estimated)", shown.power_after === null ? watts(shown.power) : <Change before={shown.power} after={shown.power_after} show={watts} />],
            ]}
          />
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
