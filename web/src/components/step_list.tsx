/** Steps of a plan with their reasons; each can be opened, and chosen for approval. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Plan, Progress, Step } from "../api/types";
import { bytes, count, duration, percent, UNKNOWN, words } from "../format";
import { progressKey } from "../live/state";
import { GuestLink, NodeLink, StateBadge } from "./parts";

const SHOWN = 100;

interface StepListProps {
  plan: Pick<Plan, "run" | "steps" | "groups">;
  chosen: ReadonlySet<string>;
  choosing: boolean;
  selected: string | null;
  progress: ReadonlyMap<string, Progress>;
  onToggle: (step: string) => void;
  onSelect: (step: string | null) => void;
}

export function StepList(props: StepListProps): JSX.Element {
  const { plan } = props;
  const [all, setAll] = useState(false);
  const steps = all ? plan.steps : plan.steps.slice(0, SHOWN);
  return (
    <>
      <ol class="step-list">
        {steps.map((step) => (
          <StepItem key={step.id} {...props} step={step} />
        ))}
      </ol>
      {steps.length < plan.steps.length ? (
        <button type="button" class="button more" onClick={() => setAll(true)}>
          Show all {plan.steps.length} steps
        </button>
      ) : null}
    </>
  );
}

function StepItem(props: StepListProps & { step: Step }): JSX.Element {
  const { step, plan } = props;
  const open = props.selected === step.id;
  const running = props.progress.get(progressKey(plan.run, step.id)) ?? null;
  const name = `${words(step.kind)} of ${step.guest ?? step.target ?? step.id}`;
  return (
    <li class={`step${open ? " open" : ""}${props.choosing ? " choosing" : ""}`}>
      <div class="step-line">
        {props.choosing ? (
          <input
            type="checkbox"
            checked={props.chosen.has(step.id)}
            aria-label={`Choose step ${step.id}, ${name}`}
            onChange={() => props.onToggle(step.id)}
          />
        ) : null}
        <button
          type="button"
          class="row-button"
          aria-expanded={open}
          onClick={() => props.onSelect(open ? null : step.id)}
        >
          <span class="code step-id">{step.id}</span>
          <span class="step-what">
            <strong>{step.guest ?? words(step.kind)}</strong>{" "}
            {step.source ? <span class="muted">{step.source} → </span> : null}
            {step.target}
          </span>
          <span class="muted step-kind">{words(step.kind)}</span>
        </button>
        <Outcome step={step} progress={step.outcome === "in-progress" ? running : null} />
      </div>
      {step.detail !== "" ? <p class="step-detail">{step.detail}</p> : null}
      {open ? <StepDetails step={step} plan={plan} progress={running} /> : null}
    </li>
  );
}

function Outcome(props: { step: Step; progress: Progress | null }): JSX.Element {
  const { step, progress } = props;
  if (step.outcome !== null) {
    const moved = progress?.total && progress.remaining !== null ? ` ${percent(1 - progress.remaining / progress.total)}` : "";
    return (
      <span class="step-outcome">
        <StateBadge state={step.outcome} title={step.outcome_detail ?? ""} />
        {moved}
      </span>
    );
  }
  if (step.estimated_start === null) return <span class="step-outcome" />;
  return (
    <span class="step-outcome muted">
      {duration(step.estimated_start)} to {duration(step.estimated_start + (step.estimated_seconds ?? 0))}
    </span>
  );
}

function StepDetails(props: { step: Step; plan: StepListProps["plan"]; progress: Progress | null }): JSX.Element {
  const { step, plan, progress } = props;
  const group = plan.groups.find((each) => each.includes(step.id));
  return (
    <div class="step-details">
      <p>
        {step.guest ? <><GuestLink id={step.guest} />: </> : null}
        <NodeLink id={step.source} /> → <NodeLink id={step.target} />
        {step.depends_on.length > 0 ? `; starts after ${step.depends_on.join(", ")}` : "; starts at once"}
        {group ? `; starts together with ${group.filter((id) => id !== step.id).join(", ")}` : ""}
      </p>
      {progress !== null ? <Transfer progress={progress} /> : null}
      {step.outcome_detail ? <p>{step.outcome_detail}</p> : null}
      {step.excluded && step.excluded.length > 0 ? (
        <>
          <h3>{count(step.excluded.length, "node")} excluded</h3>
          <ul class="excluded">
            {step.excluded.slice(0, SHOWN).map((each) => (
              <li key={each.node}>
                <NodeLink id={each.node} /> <span class="code">{words(each.reason)}</span> {each.detail}
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </div>
  );
}

function Transfer(props: { progress: Progress }): JSX.Element {
  const { total, remaining, dirty_rate, bandwidth } = props.progress;
  const moved = total === null || remaining === null ? null : Math.max(0, total - remaining);
  const rate = (value: number | null): string => (value === null ? UNKNOWN : `${bytes(value)}/s`);
  return (
    <p>
      transferred {bytes(moved)} of {bytes(total)}, remaining {bytes(remaining)}, dirty rate {rate(dirty_rate)}, bandwidth {rate(bandwidth)}
    </p>
  );
}
