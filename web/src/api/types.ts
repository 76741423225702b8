/** Documents of the API, from its OpenAPI description: `npm run types` generates them. */

import type { components } from "./generated";

type Schemas = components["schemas"];

export type Role = Schemas["Role"];
export type Mode = Schemas["Mode"];
export type Severity = Schemas["ExceptionSeverity"];
export type PlanState = Schemas["PlanState"];

export type OidcLocation = Schemas["OidcLocation"];
export type Session = Schemas["SessionDocument"];
export type SignIn = Schemas["SignInDocument"];
export type Controller = Schemas["ControllerDocument"];
export type Exception = Schemas["ExceptionDocument"];
export type NodeDocument = Schemas["NodeColumns"];
export type GuestColumns = Schemas["GuestColumns"];
export type StateDocument = Schemas["StateDocument"];
export type StateMessage = Schemas["StateMessage"];
export type Progress = Schemas["StepProgressDocument"];
export type LogEvent = Schemas["EventDocument"];
export type EventList = Schemas["EventList"];

export type PlanSummary = Schemas["PlanSummaryDocument"];
export type PlanReference = Schemas["PlanReference"];
export type PlanList = Schemas["PlanList"];
export type Plan = Schemas["PlanDocument"];
export type Step = Schemas["PlanStepDocument"];

export type Explanation = Schemas["ExplanationDocument"];
/** Explanation of a step, guest or decision in a cycle. */
export type RunExplanation = Schemas["RunExplanation"];
export type ReasonList = Schemas["ReasonList"];
export type RuleDocument = Schemas["RuleDocument"];
export type RuleList = Schemas["RuleList"];
export type NodeDetails = Schemas["NodeDocument"];
export type GuestDetails = Schemas["GuestDocument"];
export type Drain = Schemas["DrainDocument"];
export type DrainList = Schemas["DrainList"];
export type Consolidation = Schemas["ConsolidationDocument"];

export type Move = Schemas["MoveDocument"];
export type MoveList = Schemas["MovePage"];
export type Cycle = Schemas["CycleDocument"];
export type CycleList = Schemas["CycleList"];
export type RecordedCluster = Schemas["RecordedClusterDocument"];
export type ClusterSeries = Schemas["ClusterSeries"];
export type LoadSeries = Schemas["LoadSeries"];

export type Setting = Schemas["SettingDocument"];
export type SettingList = Schemas["SettingList"];
export type AuditEntry = Schemas["AuditEntry"];
export type AuditList = Schemas["AuditList"];
export type Token = Schemas["TokenDocument"];
export type TokenList = Schemas["TokenList"];
export type CreatedToken = Schemas["CreatedToken"];
export type ProblemDocument = Schemas["ProblemDocument"];

/** Figures of a policy by name. */
export type Metrics = Record<string, number | null>;

/** Columns over time; times are ISO timestamps. */
export interface Series {
  at: readonly string[];
}

export type Job = Schemas["JobDocument"];
export type JobSummary = Schemas["JobSummary"];
export type JobList = Schemas["JobList"];
