/** Figures over the columns of a cluster. */

import type { GuestColumns } from "./api/types";
import type { NodeColumns } from "./live/delta";

/** Return the number of guests of each node. */
export function guestCounts(guests: GuestColumns, nodes: number): Uint32Array {
  const counts = new Uint32Array(nodes);
  for (const node of guests.node) if (node < nodes) counts[node] = (counts[node] ?? 0) + 1;
  return counts;
}

/** Return the rows of the guests on a node. */
export function guestsOf(guests: GuestColumns, node: number): number[] {
  return guests.node.flatMap((each, row) => (each === node ? [row] : []));
}

/** Return the load of a guest: its memory in use over its limit. */
export function memoryShare(guests: GuestColumns, row: number): number | null {
  const used = guests.memory[row] ?? null;
  const limit = guests.memory_limit[row] ?? null;
  return used === null || limit === null || limit === 0 ? null : used / limit;
}

export function nodeOf(guests: GuestColumns, nodes: NodeColumns, row: number): string | null {
  const node = guests.node[row];
  return node == null ? null : (nodes.id[node] ?? null);
}
