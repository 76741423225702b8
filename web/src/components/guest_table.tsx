/** Table of guests, of any number. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { GuestColumns } from "../api/types";
import { memoryShare, nodeOf } from "../cluster";
import { bytes, decimal, words } from "../format";
import { Bar, GuestLink, NodeLink, StateBadge } from "./parts";
import type { NodeColumns } from "../live/delta";
import { VirtualTable, type Column } from "./table";

function guestColumns(guests: GuestColumns, nodes: NodeColumns): Column[] {
  return [
    { key: "id", title: "Guest", track: "minmax(7rem, 1.2fr)", value: (row) => guests.id[row] ?? "", cell: (row) => <GuestLink id={guests.id[row] ?? null} /> },
    { key: "node", title: "Node", track: "minmax(6rem, 1fr)", value: (row) => nodeOf(guests, nodes, row), cell: (row) => <NodeLink id={nodeOf(guests, nodes, row)} /> },
    { key: "state", title: "State", track: "7rem", wide: true, value: (row) => guests.state[row] ?? "", cell: (row) => (guests.state[row] === "running" ? "running" : <StateBadge state={guests.state[row] ?? "unknown"} />) },
    { key: "cpu", title: "Cores used", track: "7rem", numeric: true, value: (row) => guests.cpu[row] ?? null, cell: (row) => decimal(guests.cpu[row], 2) },
    { key: "used", title: "Memory used", track: "8rem", numeric: true, value: (row) => guests.memory[row] ?? null, cell: (row) => bytes(guests.memory[row]) },
    { key: "share", title: "Of its limit", track: "minmax(6rem, 1fr)", numeric: true, wide: true, value: (row) => memoryShare(guests, row), cell: (row) => <Bar value={memoryShare(guests, row)} kind="memory" /> },
    { key: "managed", title: "Managed by", track: "8rem", wide: true, value: (row) => guests.managed_by[row] ?? null, cell: (row) => guests.managed_by[row] ?? "" },
    { key: "stays", title: "Stays because", track: "minmax(8rem, 1.2fr)", wide: true, value: (row) => guests.stays[row] ?? null, cell: (row) => words(guests.stays[row] ?? "") },
  ];
}

export function GuestTable(props: {
  guests: GuestColumns;
  nodes: NodeColumns;
  rows: Uint32Array;
  /** Leave the column of the node out. */
  ofOneNode?: boolean;
  most?: number;
  parameter?: string;
}): JSX.Element {
  const { guests, nodes } = props;
  const columns = useMemo(
    () => guestColumns(guests, nodes).filter(({ key }) => !(props.ofOneNode && key === "node")),
    [guests, nodes, props.ofOneNode],
  );
  return (
    <VirtualTable
      label="Guests"
      noun="guest"
      columns={columns}
      rows={props.rows}
      initial="-cpu"
      {...(props.most ? { most: props.most } : {})}
      {...(props.parameter ? { parameter: props.parameter } : {})}
    />
  );
}
