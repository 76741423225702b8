/** Documents of the API. Times are ISO timestamps, sizes bytes, loads shares in [0, 1]. */

export type Role = "viewer" | "operator" | "admin";
export type Mode = "observe" | "advise" | "automatic";
export type Severity = "error" | "warning" | "info";
export type PlanState =
  | "proposed"
  | "approved"
  | "running"
  | "done"
  | "failed"
  | "cancelled"
  | "rejected"
  | "expired"
  | "superseded";

export interface Session {
  user: string;
  role: Role;
  token: string;
  expires_at: string;
}

export interface LastCycle {
  run: string | null;
  ended_at: string;
  age: number;
  reason: string;
  detail: string;
  steps: number;
  seconds: number;
}

export interface Controller {
  running: boolean;
  late: boolean;
  pid: number | null;
  started_at: string | null;
  host: string | null;
  version: string | null;
  interval: number | null;
  policy: string | null;
  last_cycle: LastCycle | null;
}

export interface ModeDocument {
  mode: Mode;
  source: string;
  detail: string;
  text: string;
  configured: Mode;
  repair: Mode;
}

export interface Pause {
  until: string;
  because: string;
  user: string;
  at: string;
}

export interface Breaker {
  opened_at: string;
  detail: string;
}

export interface Exception {
  code: string;
  severity: Severity;
  subject: string | null;
  detail: string;
}

/** Figures of the cluster by name; the names are stable, unknown values null. */
export type Metrics = Record<string, number | null>;

export interface NodeDocument {
  id: string[];
  state: string[];
  group: (string | null)[];
  cpu_capacity: (number | null)[];
  memory_capacity: (number | null)[];
  cpu: (number | null)[];
  memory: (number | null)[];
  role: string[];
  jobs: (string[] | null)[];
  drained: boolean[];
  over_limit?: boolean[];
}

export interface GuestColumns {
  id: string[];
  node: number[];
  cpu: (number | null)[];
  memory: (number | null)[];
  memory_limit: (number | null)[];
  state: string[];
  managed_by: (string | null)[];
  stays: (string | null)[];
  migrating_to?: (number | null)[];
}

/** Figures of one cycle. */
export interface Summary {
  imbalance: number | null;
  worst_node: string | null;
  worst_load: number | null;
  suffering_guests: number;
  violated_rules: number;
}

export interface StepSummary {
  id: string;
  kind: string;
  guest: string | null;
  source: string | null;
  target: string | null;
}

export interface PlanSummary {
  id: string;
  state: PlanState;
  policy: string;
  reason: string;
  reason_detail: string;
  step_count: number;
  created_at: string;
  expires_at: string;
  digest: string;
}

export interface Nothing {
  reason: string;
  sentence: string;
}

/** The state without its columns. */
export interface StateHeader {
  sequence: number;
  etag: string;
  generated_at: string;
  observed_at: string | null;
  platform: string;
  controller: Controller;
  mode: ModeDocument;
  pause: Pause | null;
  breaker: Breaker | null;
  api_breaker: Breaker | null;
  exceptions: Exception[];
  metrics: Metrics;
  summary?: Summary | null;
  plan: PlanSummary | null;
  open_plans: string[];
  nothing: Nothing | null;
  progress: Progress[];
}

export interface StateDocument extends StateHeader {
  nodes: NodeDocument;
  guests: GuestColumns;
}

export interface StateMessage {
  etag: string;
  base: string | null;
  delta: {
    cpu: (number | null)[];
    memory: (number | null)[];
    guests: number[];
    guest_node: number[];
    guest_cpu: (number | null)[];
    guest_memory: (number | null)[];
  } | null;
  controller: Controller;
  exceptions: Exception[];
  metrics: Metrics;
  summary?: Summary | null;
  nothing: Nothing | null;
}

export interface LogEvent {
  sequence: number;
  at: string;
  level: string;
  code: string;
  message: string;
  facts: Record<string, unknown>;
}

export interface Excluded {
  node: string;
  reason: string;
  detail: string;
}

export interface Progress {
  run: string;
  step: string;
  total: number | null;
  remaining: number | null;
  dirty_rate: number | null;
  bandwidth: number | null;
  at: string;
}

export interface Step extends StepSummary {
  depends_on: string[];
  detail: string;
  approved: boolean | null;
  outcome: string | null;
  outcome_detail: string | null;
  started_at: string | null;
  ended_at: string | null;
  estimated_start: number | null;
  estimated_seconds: number | null;
  excluded?: Excluded[];
}

export interface NodeChange {
  node: string;
  cpu_before: number | null;
  cpu_after: number | null;
  memory_before: number | null;
  memory_after: number | null;
}

export interface Plan extends PlanSummary {
  run: string;
  detail: string;
  changed_at: string;
  approval: { user: string | null; at: string; steps: string[] } | null;
  groups: string[][];
  before: Metrics;
  after: Metrics;
  steps: Step[];
  nodes?: NodeChange[];
}

export interface Explanation {
  subject: string;
  code: string;
  answer: string;
  details: string[];
}

export interface Series {
  at: string[];
  [name: string]: (number | null)[] | string[];
}

export interface Move {
  run: string;
  step: string;
  kind: string;
  guest: string | null;
  source: string | null;
  target: string | null;
  intended_at: string;
  ended_at: string | null;
  outcome: string | null;
  detail: string;
  predicted_seconds: number | null;
  seconds: number | null;
}

export interface RuleDocument {
  rule: string;
  kind: string;
  strict: boolean;
  origin: string | null;
  guests: string[];
  nodes: string[];
  state: string;
  detail: string;
  repair: string | null;
}

export interface NodeDetails {
  id: string;
  state: string;
  drained: boolean;
  facts: Record<string, string | number | null>;
  guests: string[];
  series: Series;
  rules: RuleDocument[];
  moves: Move[];
  explanation: Explanation | null;
}

export interface GuestDetails {
  id: string;
  node: string | null;
  state: string;
  facts: Record<string, string | number | null>;
  series: Series;
  rules: RuleDocument[];
  moves: Move[];
  explanation: Explanation | null;
}

export interface Cycle {
  run: string;
  decided_at: string;
  policy: string;
  reason: string;
  detail: string;
  steps: number;
  inputs: boolean;
}

export interface RecordedCycle {
  run: string;
  decided_at: string;
  taken_at: string;
  summary: Summary;
  nodes: NodeDocument;
  guests: GuestColumns;
  steps?: Step[];
}

export interface Job {
  id: string;
  kind: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled";
  detail: string;
  result: unknown;
}

export interface Setting {
  path: string;
  value: unknown;
  default: boolean;
  file: string | null;
  line: number | null;
}

export interface AuditEntry {
  id: number;
  at: string;
  user: string;
  command: string;
  arguments: Record<string, unknown>;
  origin: string;
  address: string | null;
  token: string | null;
  result: string;
}

export interface ProblemDocument {
  type: string;
  code: string;
  title: string;
  status: number;
  detail: string;
}
