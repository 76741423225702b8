/** Consolidation: power, nodes that are powered off, and nodes that could be. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { Series } from "../api/types";
import { guestCounts } from "../cluster";
import { metricText } from "../codes";
import { Chart, type Line } from "../components/chart";
import { JobRunner } from "../components/job";
import { NodeTable } from "../components/node_table";
import { Empty, Facts, Heading, Panel } from "../components/parts";
import { rowsWhere } from "../components/table";
import { useDocument } from "../live/loader";
import { state } from "../live/state";

const POWER: readonly Line[] = [{ name: "power_watts", label: "Power" }];
const NODES_ON: readonly Line[] = [{ name: "nodes_on", label: "Nodes powered on" }];

function watts(value: number | null | undefined): string {
  return value == null ? "–" : `${Math.round(value)} W`;
}

export function Consolidation(): JSX.Element {
  const shown = state.value;
  const run = shown?.controller.last_cycle?.run ?? "";
  const series = useDocument<Series>("series", (abort) => get("/history/series", abort), run);
  const off = useMemo(() => {
    if (shown === null) return new Uint32Array(0);
    return rowsWhere(shown.nodes.id.length, (row) => shown.nodes.state[row] === "off");
  }, [shown?.nodes.state]);
  const counts = useMemo(() => (shown ? guestCounts(shown.guests, shown.nodes.id.length) : []), [shown?.guests]);
  if (shown === null) return <Empty>Loading the state of the cluster …</Empty>;
  const empty = shown.nodes.id.filter((_, row) => counts[row] === 0 && shown.nodes.state[row] === "online").length;
  const measured = series.value !== null && POWER.some(({ name }) => series.value?.[name] !== undefined);
  return (
    <>
      <Heading title="Consolidation" text="Serve the load with fewer nodes: power, nodes that are off, nodes that could be drained." />
      <Facts
        items={[
          ["Powered off", `${off.length} of ${shown.nodes.id.length}`],
          ["Online without guests", String(empty)],
          ["Power (estimated)", watts(shown.metrics["power_watts"])],
          ["Nodes with guests", metricText("active_hosts", counts.length ? Array.from(counts).filter((each) => each > 0).length : null)],
          ["Policy", shown.controller.policy ?? "–"],
        ]}
      />
      {measured ? (
        <div class="columns">
          <Panel title="Power"><Chart label="Power" series={series.value} lines={POWER} show={watts} /></Panel>
          <Panel title="Nodes powered on"><Chart label="Nodes powered on" series={series.value} lines={NODES_ON} show={(value) => metricText("active_hosts", value)} /></Panel>
        </div>
      ) : null}
      <Panel title="Nodes that are powered off">
        {off.length === 0 ? <Empty>None.</Empty> : <NodeTable nodes={shown.nodes} guestCounts={counts} rows={off} most={12} />}
      </Panel>
      <Panel title="Nodes that could be drained together">
        <JobRunner kind="what-if" request={{}} action="Find dispensable nodes" />
      </Panel>
    </>
  );
}
