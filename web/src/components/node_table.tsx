/** Table of nodes, of any number. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { NodeColumns } from "../live/delta";
import { bytes, decimal, percent, UNKNOWN } from "../format";
import { Bar, NodeLink, StateBadge } from "./parts";
import { drainState, worstLoad } from "../cluster";
import { rowsWhere, VirtualTable, type Column } from "./table";

function worstText(nodes: NodeColumns, row: number): string {
  const worst = worstLoad(nodes, row);
  return worst === null ? UNKNOWN : `${worst.resource} ${percent(worst.load)}`;
}

export function nodeColumns(nodes: NodeColumns, guests: ArrayLike<number>): Column[] {
  return [
    {
      key: "id",
      title: "Node",
      track: "minmax(8rem, 1.4fr)",
      value: (row) => nodes.id[row] ?? "",
      cell: (row) => <NodeLink id={nodes.id[row] ?? null} />,
    },
    {
      key: "state",
      title: "State",
      track: "12rem",
      wide: true,
      value: (row) => nodes.state[row] ?? "",
      cell: (row) => (
        <>
          <StateBadge state={nodes.state[row] ?? "unknown"} />
          {` ${drainState(nodes, row, guests[row] ?? 0)}`}
        </>
      ),
    },
    {
      key: "group",
      title: "Group",
      track: "minmax(5rem, 0.7fr)",
      wide: true,
      value: (row) => nodes.group[row] ?? null,
      cell: (row) => nodes.group[row] ?? UNKNOWN,
    },
    {
      key: "worst",
      title: "Worst",
      track: "7.5rem",
      numeric: true,
      wide: true,
      value: (row) => worstLoad(nodes, row)?.load ?? null,
      cell: (row) => worstText(nodes, row),
    },
    {
      key: "cpu",
      title: "CPU",
      track: "minmax(6rem, 1fr)",
      numeric: true,
      value: (row) => nodes.cpu[row] ?? null,
      cell: (row) => <Bar value={nodes.cpu[row]} kind="cpu" />,
    },
    {
      key: "memory",
      title: "Memory",
      track: "minmax(6rem, 1fr)",
      numeric: true,
      value: (row) => nodes.memory[row] ?? null,
      cell: (row) => <Bar value={nodes.memory[row]} kind="memory" />,
    },
    {
      key: "cores",
      title: "Cores",
      track: "5rem",
      numeric: true,
      wide: true,
      value: (row) => nodes.cpu_capacity[row] ?? null,
      cell: (row) => decimal(nodes.cpu_capacity[row], 0),
    },
    {
      key: "size",
      title: "Memory size",
      track: "7rem",
      numeric: true,
      wide: true,
      value: (row) => nodes.memory_capacity[row] ?? null,
      cell: (row) => bytes(nodes.memory_capacity[row]),
    },
    {
      key: "guests",
      title: "Guests",
      track: "5rem",
      numeric: true,
      value: (row) => guests[row] ?? 0,
      cell: (row) => guests[row] ?? 0,
    },
    {
      key: "role",
      title: "In the plan",
      track: "7rem",
      wide: true,
      value: (row) => nodes.role[row] ?? null,
      cell: (row) => (nodes.role[row] === "neutral" ? "" : (nodes.role[row] ?? "")),
    },
  ];
}

/** Columns that a table beside other panels leaves out. */
const SIZES: ReadonlySet<string> = new Set(["cores", "size", "group"]);

export function NodeTable(props: {
  nodes: NodeColumns;
  guestCounts: ArrayLike<number>;
  rows?: Uint32Array;
  most?: number;
}): JSX.Element {
  const { nodes, guestCounts } = props;
  const short = props.most !== undefined;
  const columns = useMemo(() => nodeColumns(nodes, guestCounts).filter((each) => !short || !SIZES.has(each.key)), [nodes, guestCounts, short]);
  const all = useMemo(() => rowsWhere(nodes.id.length, () => true), [nodes.id]);
  return (
    <VirtualTable
      label="Nodes"
      noun="node"
      columns={columns}
      rows={props.rows ?? all}
      initial="-worst"
      {...(props.most ? { most: props.most } : {})}
    />
  );
}
