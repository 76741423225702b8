/** Table of guests, of any number. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { GuestColumns } from "../api/types";
import { memoryShare, nodeOf, nodeShare } from "../cluster";
import { bytes, decimal, words } from "../format";
import { Bar, GuestLink, NodeLink, StateBadge } from "./parts";
import type { NodeColumns } from "../live/delta";
import { VirtualTable, type Column } from "./table";

function guestColumns(guests: GuestColumns, nodes: NodeColumns): Column[] {
  return [
    { key: "id", title: "Guest", track: "minmax(7rem, 1.2fr)", value: (row) => guests.id[row] ?? "", cell: (row) => <GuestLink id={guests.id[row] ?? null} /> },
    { key: "node", title: "Node", track: "minmax(6rem, 1fr)", value: (row) => nodeOf(guests, nodes, row), cell: (row) => <NodeLink id={nodeOf(guests, nodes, row)} /> },
    { key: "state", title: "State", track: "7rem", wide: true, value: (row) => guests.state[row] ?? "", cell: (row) => (guests.state[row] === "running" ? "running" : <StateBadge state={guests.state[row] ?? "unknown"} />) },
    { key: "cpu_share", title: "Of the node's CPU", track: "minmax(7rem, 1fr)", numeric: true, value: (row) => nodeShare(guests, nodes, row, "cpu"), cell: (row) => <Bar value={nodeShare(guests, nodes, row, "cpu")} kind="cpu" /> },
    { key: "memory_share", title: "Of its memory", track: "minmax(7rem, 1fr)", numeric: true, value: (row) => nodeShare(guests, nodes, row, "memory"), cell: (row) => <Bar value={nodeShare(guests, nodes, row, "memory")} kind="memory" /> },
    { key: "cpu", title: "Cores used", track: "6.5rem", numeric: true, value: (row) => guests.cpu[row] ?? null, cell: (row) => decimal(guests.cpu[row], 2) },
    { key: "used", title: "Memory used", track: "7.5rem", numeric: true, value: (row) => guests.memory[row] ?? null, cell: (row) => bytes(guests.memory[row]) },
    { key: "share", title: "Of its limit", track: "minmax(6rem, 1fr)", numeric: true, wide: true, value: (row) => memoryShare(guests, row), cell: (row) => <Bar value={memoryShare(guests, row)} kind="memory" /> },
    { key: "managed", title: "Managed by", track: "8rem", wide: true, value: (row) => guests.managed_by[row] ?? null, cell: (row) => guests.managed_by[row] ?? "" },
    { key: "stays", title: "Stays because", track: "minmax(8rem, 1.2fr)", wide: true, value: (row) => guests.stays[row] ?? null, cell: (row) => words(guests.stays[row] ?? "") },
  ];
}

/** Columns of guests on one node, and of guests on any. */
const OF_ONE: ReadonlySet<string> = new Set(["cpu_share", "memory_share"]);
const AMOUNTS: ReadonlySet<string> = new Set(["cpu", "used"]);
const OF_ALL: ReadonlySet<string> = new Set(["node", "share", "managed"]);

export function GuestTable(props: {
  guests: GuestColumns;
  nodes: NodeColumns;
  rows: Uint32Array;
  /** The guests are on one node: show their shares of it. The resource to sort by. */
  ofOneNode?: "cpu" | "memory";
  most?: number;
  parameter?: string;
}): JSX.Element {
  const { guests, nodes } = props;
  const columns = useMemo(
    () => {
      const columns = guestColumns(guests, nodes);
      if (!props.ofOneNode) return columns.filter(({ key }) => !OF_ONE.has(key));
      return columns.filter(({ key }) => !OF_ALL.has(key)).map((each) => (AMOUNTS.has(each.key) ? { ...each, wide: true } : each));
    },
    [guests, nodes, props.ofOneNode],
  );
  return (
    <VirtualTable
      label="Guests"
      noun="guest"
      columns={columns}
      rows={props.rows}
      initial={props.ofOneNode ? `-${props.ofOneNode}_share` : "-cpu"}
      {...(props.most ? { most: props.most } : {})}
      {...(props.parameter ? { parameter: props.parameter } : {})}
    />
  );
}
