/** Table of all guests, and the page of one. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { GuestDetails } from "../api/types";
import { nodeOf } from "../cluster";
import { Chart, type Line } from "../components/chart";
import { DetailPanels, factItems, PlannedPanel } from "../components/detail_panels";
import { GuestTable } from "../components/guest_table";
import { Observed } from "../components/observed";
import { Empty, Facts, Heading, NodeLink, Panel, Pending, Search, Select, StateBadge } from "../components/parts";
import { rowsWhere } from "../components/table";
import { bytes, count, decimal } from "../format";
import { useDocument } from "../live/loader";
import { planChanges, state } from "../live/state";
import { route, setParameter } from "../router";

const CPU: readonly Line[] = [{ name: "cpu", label: "Cores used" }];
const MEMORY: readonly Line[] = [{ name: "memory", label: "Memory used" }];

export function Guests(): JSX.Element {
  const shown = state.value;
  const { query } = route.value;
  const searched = (query.get("q") ?? "").toLowerCase();
  const chosen = query.get("state") ?? "";
  const node = query.get("node");
  const rows = useMemo(() => {
    if (shown === null) return new Uint32Array(0);
    const { guests, nodes } = shown;
    return rowsWhere(guests.id.length, (row) => {
      if (chosen !== "" && guests.state[row] !== chosen) return false;
      const placed = nodeOf(guests, nodes, row);
      if (node !== null && placed !== node) return false;
      return searched === "" || `${guests.id[row]} ${placed ?? ""}`.toLowerCase().includes(searched);
    });
  }, [shown?.guests.id, shown?.guests.node, shown?.guests.state, searched, chosen, node]);
  if (shown === null) return <Empty>Loading the state of the cluster …</Empty>;
  const states = [...new Set(shown.guests.state)].sort();
  return (
    <>
      <Heading title="Guests" text={<>{rows.length.toLocaleString("en")} of {count(shown.guests.id.length, "guest")}{node ? ` on ${node}` : ""}, <Observed /></>}>
        <Search label="Find a guest or node" value={query.get("q") ?? ""} onChange={(value) => setParameter("q", value)} />
        <Select label="State" value={chosen} options={[["", "All states"], ...states.map((each) => [each, each] as const)]} onChange={(value) => setParameter("state", value)} />
        {node ? <button type="button" class="button" onClick={() => setParameter("node", null)}>All nodes</button> : null}
      </Heading>
      <GuestTable guests={shown.guests} nodes={shown.nodes} rows={rows} />
    </>
  );
}

export function GuestPage(props: { id: string }): JSX.Element {
  const address = `/guests/${encodeURIComponent(props.id)}`;
  const run = state.value?.controller.last_cycle?.run;
  const found = useDocument<GuestDetails>(address, (abort) => get(address, abort), `${run} ${planChanges.value}`);
  const details = found.value;
  if (details === null) return <><Heading title={`Guest ${props.id}`} /><Pending error={found.error} reload={found.reload} what="the guest" /></>;
  return (
    <>
      <Heading title={<>Guest {details.id} <StateBadge state={details.state} /></>} text={<>on <NodeLink id={details.node} />{details.migrating_to ? <>, migrating to <NodeLink id={details.migrating_to} /></> : null}</>} />
      <Facts items={factItems(details.facts)} />
      <PlannedPanel planned={details.planned} />
      <DetailPanels explanation={details.explanation} rules={details.rules} moves={details.moves} />
      <div class="columns">
        <Panel title="Cores used" actions={<Observed />}>
          <Chart label={`Cores used by ${details.id}`} series={details.series} lines={CPU} show={(value) => decimal(value, 2)} />
        </Panel>
        <Panel title="Memory used">
          <Chart label={`Memory used by ${details.id}`} series={details.series} lines={MEMORY} show={bytes} />
        </Panel>
      </div>
    </>
  );
}
