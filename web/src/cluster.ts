/** Figures over the columns of a cluster. */

import type { Exception, GuestColumns, Step } from "./api/types";
import type { Cluster, NodeColumns } from "./live/delta";

/** Return the number of guests of each node. */
export function guestCounts(guests: GuestColumns, nodes: number): Uint32Array {
  const counts = new Uint32Array(nodes);
  for (const node of guests.node) if (node < nodes) counts[node] = (counts[node] ?? 0) + 1;
  return counts;
}

/** Return how far the drain of a node is; empty without a drain. */
export function drainState(nodes: NodeColumns, node: number, guests: number): "" | "draining" | "drained" {
  if (!nodes.drained[node]) return "";
  return guests > 0 ? "draining" : "drained";
}

/** Return how many guests leave a drained node and cannot, as a sentence; null if it has none. */
export function drainDetail(exceptions: readonly Exception[], node: string): string | null {
  const found = exceptions.find((each) => each.code === "node-draining" && each.subject === node);
  return found === undefined ? null : found.detail.replace(`${node}: `, "");
}

export interface WorstLoad {
  resource: "CPU" | "memory";
  load: number;
}

/** Return the resource of a node with the highest load; null if none is known. */
export function worstLoad(nodes: NodeColumns, node: number): WorstLoad | null {
  const cpu = nodes.cpu[node] ?? null;
  const memory = nodes.memory[node] ?? null;
  if (cpu === null && memory === null) return null;
  return memory === null || (cpu !== null && cpu >= memory) ? { resource: "CPU", load: cpu ?? 0 } : { resource: "memory", load: memory };
}

/** Return the share of a guest in the cores and the memory of its node. */
export function nodeShare(guests: GuestColumns, nodes: NodeColumns, row: number, resource: "cpu" | "memory"): number | null {
  const node = guests.node[row];
  const used = guests[resource][row] ?? null;
  const size = node == null ? null : ((resource === "cpu" ? nodes.cpu_capacity : nodes.memory_capacity)[node] ?? null);
  return used === null || size === null || size <= 0 ? null : used / size;
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

export interface LoadChange {
  before: number | null;
  after: number | null;
}

export interface NodeChange {
  node: string;
  cpu: LoadChange;
  memory: LoadChange;
}

/** Return true if the loads observed at a time do not have the effect of a step yet. */
function isAhead(step: Step, observed: string | null): boolean {
  if (step.outcome === null) return true;
  return step.outcome === "done" && step.ended_at !== null && observed !== null && Date.parse(step.ended_at) > Date.parse(observed);
}

/** Return the loads of the nodes that *steps* touch, as observed and after the steps. */
export function nodeChanges(cluster: Cluster & { observed_at: string | null }, steps: readonly Step[]): NodeChange[] {
  const { nodes, guests } = cluster;
  const nodeRows = new Map(nodes.id.map((id, row) => [id, row]));
  const guestRows = new Map(guests.id.map((id, row) => [id, row]));
  const moved = new Map<number, { cpu: number | null; memory: number | null }>();
  const add = (node: number | undefined, guest: number, sign: 1 | -1): void => {
    if (node === undefined) return;
    const sum = moved.get(node) ?? { cpu: 0, memory: 0 };
    const plus = (total: number | null, value: number | null | undefined): number | null =>
      total === null || value == null ? null : total + sign * value;
    moved.set(node, { cpu: plus(sum.cpu, guests.cpu[guest]), memory: plus(sum.memory, guests.memory[guest]) });
  };
  for (const step of steps) {
    const guest = step.guest === null ? undefined : guestRows.get(step.guest);
    if (guest === undefined || step.source === null || !isAhead(step, cluster.observed_at)) continue;
    add(nodeRows.get(step.source), guest, -1);
    add(nodeRows.get(step.target), guest, 1);
  }
  const change = (used: number | null | undefined, capacity: number | null | undefined, by: number | null): LoadChange => {
    if (used == null || capacity == null || capacity <= 0) return { before: null, after: null };
    return { before: used / capacity, after: by === null ? null : Math.max(0, (used + by) / capacity) };
  };
  return [...moved].map(([row, by]) => ({
    node: nodes.id[row] ?? "",
    cpu: change(nodes.cores[row], nodes.cpu_capacity[row], by.cpu),
    memory: change(nodes.bytes[row], nodes.memory_capacity[row], by.memory),
  }));
}
