/** The state as the screens use it, and its changes. */

import type { GuestColumns, NodeDocument, StateDocument, StateMessage } from "../api/types";

type Column = (number | null)[];

/** Columns of nodes: `cpu` and `memory` are shares of the capacity. */
export interface NodeColumns extends NodeDocument {
  cores: Column;
  bytes: Column;
}

export interface Cluster {
  nodes: NodeColumns;
  guests: GuestColumns;
}

export interface State extends Omit<StateDocument, "nodes" | "guests">, Cluster {}

function shares(used: Column, capacity: Column): Column {
  return used.map((value, row) => {
    const size = capacity[row] ?? null;
    return value === null || size === null || size <= 0 ? null : value / size;
  });
}

export function nodeColumns(nodes: NodeDocument): NodeColumns {
  return {
    ...nodes,
    cores: nodes.cpu,
    bytes: nodes.memory,
    cpu: shares(nodes.cpu, nodes.cpu_capacity),
    memory: shares(nodes.memory, nodes.memory_capacity),
  };
}

export function stateFrom(document: StateDocument): State {
  return { ...document, nodes: nodeColumns(document.nodes) };
}

/** Return the changed state, or null if the whole state has to be fetched. */
export function applyMessage(state: State, message: StateMessage): State | null {
  const { etag, base, delta, ...header } = message;
  if (etag === state.etag) return { ...state, ...header };
  if (delta === null || base !== state.etag) return null;
  const { nodes, guests } = state;
  return {
    ...state,
    ...header,
    etag,
    nodes: {
      ...nodes,
      cores: delta.cpu,
      bytes: delta.memory,
      cpu: shares(delta.cpu, nodes.cpu_capacity),
      memory: shares(delta.memory, nodes.memory_capacity),
    },
    guests: {
      ...guests,
      node: replaced(guests.node, delta.guests, delta.guest_node),
      cpu: replaced(guests.cpu, delta.guests, delta.guest_cpu),
      memory: replaced(guests.memory, delta.guests, delta.guest_memory),
    },
  };
}

function replaced<T>(column: T[], rows: readonly number[], values: readonly T[]): T[] {
  if (rows.length === 0) return column;
  const next = column.slice();
  rows.forEach((row, position) => {
    next[row] = values[position] as T;
  });
  return next;
}
