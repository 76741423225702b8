/** Table of all nodes, and the page of one. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { NodeDetails } from "../api/types";
import { drainDetail, guestCounts, guestsOf, nodeShare, worstLoad } from "../cluster";
import { Chart, type Line } from "../components/chart";
import { DetailPanels, factItems, PlannedPanel } from "../components/detail_panels";
import { DrainButton } from "../components/drain_button";
import { GuestTable } from "../components/guest_table";
import { NodeTable } from "../components/node_table";
import { Observed } from "../components/observed";
import { Empty, Facts, GuestLink, Heading, Panel, Pending, Search, Select, StateBadge } from "../components/parts";
import { rowsWhere } from "../components/table";
import { count, dateTime, percent } from "../format";
import { useDocument } from "../live/loader";
import type { State } from "../live/delta";
import { planChanges, refresh, state } from "../live/state";
import { href, route, setParameter } from "../router";

const LOAD_LINES: readonly Line[] = [
  { name: "cpu", label: "CPU" },
  { name: "memory", label: "Memory" },
];

export function Nodes(): JSX.Element {
  const shown = state.value;
  const { query } = route.value;
  const searched = (query.get("q") ?? "").toLowerCase();
  const chosen = query.get("state") ?? "";
  const counts = useMemo(() => (shown ? guestCounts(shown.guests, shown.nodes.id.length) : new Uint32Array(0)), [shown?.guests]);
  const rows = useMemo(() => {
    if (shown === null) return new Uint32Array(0);
    const { nodes } = shown;
    return rowsWhere(nodes.id.length, (row) => {
      if (chosen !== "" && nodes.state[row] !== chosen) return false;
      if (searched === "") return true;
      return `${nodes.id[row]} ${nodes.group[row] ?? ""}`.toLowerCase().includes(searched);
    });
  }, [shown?.nodes.id, shown?.nodes.state, shown?.nodes.group, searched, chosen]);
  if (shown === null) return <Empty>Loading the state of the cluster …</Empty>;
  const states = [...new Set(shown.nodes.state)].sort();
  return (
    <>
      <Heading title="Nodes" text={<>{rows.length.toLocaleString("en")} of {count(shown.nodes.id.length, "node")}, <Observed /></>}>
        <Search label="Find a node or group" value={query.get("q") ?? ""} onChange={(value) => setParameter("q", value)} />
        <Select label="State" value={chosen} options={[["", "All states"], ...states.map((each) => [each, each] as const)]} onChange={(value) => setParameter("state", value)} />
      </Heading>
      <NodeTable nodes={shown.nodes} guestCounts={counts} rows={rows} />
    </>
  );
}

export function NodePage(props: { id: string }): JSX.Element {
  const address = `/nodes/${encodeURIComponent(props.id)}`;
  const shown = state.value;
  const run = shown?.controller.last_cycle?.run;
  const found = useDocument<NodeDetails>(address, (abort) => get(address, abort), `${run} ${planChanges.value}`);
  const row = shown?.nodes.id.indexOf(props.id) ?? -1;
  const guests = useMemo(() => (shown && row >= 0 ? Uint32Array.from(guestsOf(shown.guests, row)) : new Uint32Array(0)), [shown?.guests, row]);
  const details = found.value;
  if (details === null) return <><Heading title={`Node ${props.id}`} /><Pending error={found.error} reload={found.reload} what="the node" /></>;
  return (
    <>
      <Heading title={<>Node {details.id} <StateBadge state={details.state} />{details.drain ? <> <StateBadge state={guests.length > 0 ? "draining" : "drained"} /></> : null}</>}>
        <a class="button" href={`${href("what-if")}?kind=drain&node=${encodeURIComponent(details.id)}`}>Preview a drain</a>
        <DrainButton node={details.id} drained={details.drain !== null} onDone={() => { found.reload(); void refresh().catch(() => undefined); }} />
      </Heading>
      {details.drain ? <DrainText node={details.id} drain={details.drain} guests={guests.length} /> : null}
      {shown !== null ? <LoadText state={shown} node={row} guests={guests} /> : null}
      <Facts items={factItems(details.facts)} />
      <PlannedPanel planned={details.planned} />
      <Panel title="Load" actions={<Observed />}>
        <Chart label={`Load of ${details.id}`} series={details.series} lines={LOAD_LINES} show={percent} height={180} />
      </Panel>
      {shown !== null ? (
        <Panel title={`Guests (${guests.length})`}>
          <GuestTable guests={shown.guests} nodes={shown.nodes} rows={guests} ofOneNode={worstResource(shown, row)} parameter="guests" />
        </Panel>
      ) : null}
      <DetailPanels explanation={details.explanation} rules={details.rules} moves={details.moves} />
    </>
  );
}

function worstResource(shown: State, node: number): "cpu" | "memory" {
  return worstLoad(shown.nodes, node)?.resource === "memory" ? "memory" : "cpu";
}

const LARGEST = 3;

/** The guests that cause most of the load of the worst resource of a node. */
function LoadText(props: { state: State; node: number; guests: Uint32Array }): JSX.Element | null {
  const { state: shown, node } = props;
  const worst = node < 0 ? null : worstLoad(shown.nodes, node);
  if (worst === null || props.guests.length === 0) return null;
  const resource = worstResource(shown, node);
  const share = (guest: number): number => nodeShare(shown.guests, shown.nodes, guest, resource) ?? 0;
  const largest = Array.from(props.guests).sort((a, b) => share(b) - share(a)).slice(0, LARGEST);
  const sum = Array.from(props.guests).reduce((total, guest) => total + share(guest), 0);
  return (
    <p class="sentence">
      The most loaded resource is {worst.resource === "CPU" ? "the CPU" : "the memory"}, {percent(worst.load)} in use: {percent(sum)} by {count(props.guests.length, "guest")}, the largest being{" "}
      {largest.map((guest, index) => (
        <span key={guest}>
          {index > 0 ? ", " : ""}
          <GuestLink id={shown.guests.id[guest] ?? null} /> {percent(share(guest), 1)}
        </span>
      ))}
      .
    </p>
  );
}

/** Operator and reason of a drain, and the plan that waits for an approval. */
function DrainText(props: { node: string; drain: NonNullable<NodeDetails["drain"]>; guests: number }): JSX.Element {
  const { node, drain, guests } = props;
  const plan = state.value?.plan ?? null;
  return (
    <p class="sentence">
      Drained by {drain.user} since {dateTime(drain.since)}{drain.because === "" ? "" : `: ${drain.because}`}.
      {guests > 0 ? ` ${drainDetail(state.value?.exceptions ?? [], node) ?? `${count(guests, "guest")} still here`}.` : " No guest is on it."}
      {guests > 0 && plan?.state === "proposed" ? <> Plan <a href={href("plans", plan.id)}>{plan.id}</a> waits for an approval.</> : null}
      {guests > 0 && plan?.state === "running" ? <> The drain starts after plan <a href={href("plans", plan.id)}>{plan.id}</a>, unless it is part of it.</> : null}
    </p>
  );
}
