/** State of a plan: one of which only a part was approved is never shown as done. */

import type { JSX } from "preact";
import type { PlanReference } from "../api/types";
import { count } from "../format";
import { href } from "../router";
import { Badge, StateBadge } from "./parts";

type Part = Pick<PlanReference, "state" | "step_count" | "approved_count">;

/** Return the part of the steps that was approved; empty if all were. */
export function partText(plan: Part): string {
  const { approved_count: approved, step_count: steps } = plan;
  if (approved === null || approved >= steps) return "";
  return `${approved} of ${count(steps, "step")} approved`;
}

export function PlanBadge(props: { plan: Part }): JSX.Element {
  const { plan } = props;
  const part = partText(plan);
  if (plan.state === "done" && part !== "") return <Badge tone="warning">{`partly done (${part})`}</Badge>;
  return <StateBadge state={plan.state} {...(part === "" ? {} : { title: part })} />;
}

/** Link to a plan, with the user that approved it. */
export function PlanLink(props: { plan: PlanReference | null }): JSX.Element | null {
  const { plan } = props;
  if (plan === null) return null;
  return <a href={href("plans", plan.id)}>{plan.id}</a>;
}

export function approvalText(plan: PlanReference | null): string {
  if (plan === null || plan.approved_count === null) return "";
  return plan.approved_by ?? "no approval needed";
}
