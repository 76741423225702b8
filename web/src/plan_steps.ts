/** Choice of steps of a plan: a step includes all that it depends on, and its group. */

import type { Plan } from "./api/types";

export interface Moving {
  kind: string;
  guest: string | null;
  source: string | null;
  target: string | null;
  disk?: { name: string; source: string; target: string } | null;
}

/** Return what a step moves, from where, and to where: nodes, or storages of a disk. */
export function pathOf(step: Moving): { what: string | null; from: string | null; to: string | null } {
  const { disk } = step;
  if (disk) return { what: `${step.guest ?? ""} (${disk.name})`, from: disk.source, to: disk.target };
  return { what: step.guest, from: step.source, to: step.target };
}

type Steps = Pick<Plan, "steps" | "groups">;

/** Return *chosen* with all steps that must be executed as well. */
export function withPrerequisites(plan: Steps, chosen: Iterable<string>): Set<string> {
  const needs = new Map(plan.steps.map((step) => [step.id, [...step.depends_on]]));
  for (const group of plan.groups) {
    for (const step of group) needs.get(step)?.push(...group);
  }
  return closure(needs, chosen);
}

/** Return *removed* with all steps that cannot be executed without them. */
export function withDependents(plan: Steps, removed: Iterable<string>): Set<string> {
  const needed = new Map<string, string[]>(plan.steps.map((step) => [step.id, []]));
  for (const step of plan.steps) {
    for (const name of step.depends_on) needed.get(name)?.push(step.id);
  }
  for (const group of plan.groups) {
    for (const step of group) needed.get(step)?.push(...group);
  }
  return closure(needed, removed);
}

function closure(edges: ReadonlyMap<string, readonly string[]>, from: Iterable<string>): Set<string> {
  const found = new Set<string>(from);
  const open = [...found];
  for (let step = open.pop(); step !== undefined; step = open.pop()) {
    for (const next of edges.get(step) ?? []) {
      if (found.has(next)) continue;
      found.add(next);
      open.push(next);
    }
  }
  return found;
}

/** Return the longest chain of dependent steps, by their estimated durations. */
export function criticalPath(steps: Plan["steps"]): string[] {
  const end = new Map<string, { seconds: number; before: string | null }>();
  const byId = new Map(steps.map((step) => [step.id, step]));
  const endOf = (id: string): number => {
    const known = end.get(id);
    if (known) return known.seconds;
    const step = byId.get(id);
    if (step === undefined) return 0;
    end.set(id, { seconds: 0, before: null });
    let start = 0;
    let before: string | null = null;
    for (const name of step.depends_on) {
      if (endOf(name) >= start && byId.has(name)) {
        start = endOf(name);
        before = name;
      }
    }
    const seconds = start + (step.estimated_seconds ?? 0);
    end.set(id, { seconds, before });
    return seconds;
  };
  let last: string | null = null;
  for (const { id } of steps) if (last === null || endOf(id) > endOf(last)) last = id;
  const path: string[] = [];
  for (let id: string | null = last; id !== null; id = end.get(id)?.before ?? null) path.unshift(id);
  return path.length > 1 ? path : [];
}
