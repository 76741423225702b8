/** Sentences for codes that the API gives without one, and what would have to change. */

interface Meaning {
  text: string;
  change?: string;
}

/** Reasons why a guest stays. */
export const STAY_CODES: Record<string, Meaning> = {
  "planned": { text: "The guest is part of the plan." },
  "not-chosen": { text: "A migration is possible, but would not improve the balance enough.", change: "Another load, or a lower minimum improvement." },
  "not-running": { text: "The guest is not running.", change: "Start it." },
  "migration-in-progress": { text: "The guest is migrating.", change: "Wait for the end of the migration." },
  "managed-elsewhere": { text: "Another program decides on its placement.", change: "Take it out of the other program's control." },
  "guest-locked": { text: "An operation of the platform locks the guest.", change: "Wait for the operation, or unlock the guest." },
  "node-not-online": { text: "Its node is not online.", change: "Bring the node back." },
  "pinned": { text: "A rule pins the guest.", change: "Remove the pin." },
  "tag-excluded": { text: "A rule excludes a tag of the guest.", change: "Remove the tag or the rule." },
  "contradictory-rules": { text: "Its rules contradict each other.", change: "Change one of the rules." },
  "recently-started": { text: "It was started within the minimum uptime.", change: "Wait until the minimum uptime has passed." },
  "cooldown": { text: "It was migrated within the cooldown.", change: "Wait until the cooldown has passed." },
  "not-ha-managed": { text: "The HA manager does not manage it, which the policy requires.", change: "Add it to the HA manager, or use another policy." },
  "metrics-missing": { text: "A required metric is unknown.", change: "Make its metrics available." },
  "no-cpu-limit": { text: "It has no CPU limit, which the static load model requires.", change: "Set a CPU limit." },
  "mobility-none": { text: "It cannot be migrated.", change: "Remove what binds it to the node, such as a local disk or device." },
  "mobility-cold": { text: "It can only be migrated cold, which the policy does not do.", change: "Allow cold migrations, or make it live-migratable." },
  "group-member-skipped": { text: "Another guest of its move group stays.", change: "See the other guests of the group." },
  "group-on-several-nodes": { text: "The guests of its move group are on several nodes.", change: "Bring the group together on one node." },
  "no-common-node": { text: "No node can take the whole move group.", change: "Free memory on a feasible node." },
  "no-feasible-node": { text: "Rules, hardware or memory allow no other node.", change: "Relax a rule, or free memory on another node." },
  "over-budget": { text: "Bringing its move group together exceeds the budget.", change: "Raise the budget." },
  "last-migrated": { text: "It was the last guest that the policy migrated.", change: "Another guest migrates first." },
};

/** Names of the figures of a cluster. */
const METRICS: Record<string, { label: string; form: "percent" | "ratio" | "count" | "decimal" }> = {
  imbalance: { label: "Imbalance", form: "ratio" },
  cpu_imbalance: { label: "Imbalance of CPU load", form: "ratio" },
  memory_imbalance: { label: "Imbalance of memory load", form: "ratio" },
  highest_cpu: { label: "Highest CPU load", form: "percent" },
  highest_memory: { label: "Highest memory load", form: "percent" },
  mean_cpu: { label: "Mean CPU load", form: "percent" },
  mean_memory: { label: "Mean memory load", form: "percent" },
  suffering_guests: { label: "Suffering guests", form: "count" },
  broken_rules: { label: "Violated strict rules", form: "count" },
  overfull_gib: { label: "Memory above the limit (GiB)", form: "decimal" },
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

export function metricLabel(name: string): string {
  return METRICS[name]?.label ?? name.replaceAll("_", " ");
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
