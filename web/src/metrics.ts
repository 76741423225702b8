/** Figures of a cluster: their names and forms. */

import { withDurations } from "./format";

const METRICS: Record<string, { label: string; form: "percent" | "ratio" | "count" | "decimal" }> = {
  imbalance: { label: "Imbalance", form: "ratio" },
  cpu_imbalance: { label: "Imbalance of CPU load", form: "ratio" },
  memory_imbalance: { label: "Imbalance of memory load", form: "ratio" },
  highest_cpu: { label: "Highest CPU load", form: "percent" },
  highest_memory: { label: "Highest memory load", form: "percent" },
  mean_cpu: { label: "Mean CPU load", form: "percent" },
  mean_memory: { label: "Mean memory load", form: "percent" },
  suffering: { label: "Suffering guests", form: "count" },
  broken_rules: { label: "Violated strict rules", form: "count" },
  overfull_gib: { label: "Memory above what nodes may hold (GiB)", form: "decimal" },
  waiting_cores: { label: "Unmet CPU demand (cores)", form: "decimal" },
  waiting_gib: { label: "Unmet memory demand (GiB)", form: "decimal" },
  used_nodes: { label: "Nodes with guests", form: "count" },
  difference: { label: "Difference of the scores", form: "percent" },
  highest_score: { label: "Highest score of a node", form: "percent" },
  lowest_score: { label: "Lowest score of a node", form: "percent" },
  active_hosts: { label: "Nodes with guests", form: "count" },
  hosts_on: { label: "Nodes powered on", form: "count" },
  overload_time_fraction: { label: "Expected time in overload", form: "percent" },
  power_watts: { label: "Power (W, estimated)", form: "count" },
  waiting_guests: { label: "Guests stalled for CPU", form: "count" },
  crowded_guests: { label: "Guests on nodes short of memory", form: "count" },
  highest_cpu_pressure: { label: "Highest CPU pressure of a guest", form: "percent" },
};

/** Meaning of the imbalance, where it stands alone. */
export const IMBALANCE_TEXT = "coefficient of variation (CV) of the node loads, 0 = all nodes equally loaded";

export function metricLabel(name: string): string {
  return METRICS[name]?.label ?? name.replaceAll("_", " ");
}

const CHANGE = /^([\d.]+) now, ([\d.]+) after$/;
const STEP = /^(step \S+: |\d+ further steps?$)/;

/** Return a line of an explanation; a figure at its start with its label and form. */
export function detailText(line: string): string {
  const end = line.indexOf(": ");
  const name = line.slice(0, end);
  const figure = METRICS[name];
  if (figure === undefined) return withDurations(line);
  const change = CHANGE.exec(line.slice(end + 2));
  if (change === null) return withDurations(`${figure.label}${line.slice(end)}`);
  return `${figure.label}: ${metricText(name, Number(change[1]))} now, ${metricText(name, Number(change[2]))} after`;
}

/** Return the lines of a decision without its steps, which are listed beside them. */
export function detailLines(details: readonly string[]): string[] {
  return details.filter((line) => !STEP.test(line)).map(detailText);
}

export function metricText(name: string, value: number | null | undefined): string {
  if (value == null) return "–";
  switch (METRICS[name]?.form) {
    case "percent":
      return `${(100 * value).toFixed(1)}%`;
    case "ratio":
      return value.toFixed(3);
    case "count":
      return value.toFixed(0);
    default:
      return value.toFixed(2);
  }
}
