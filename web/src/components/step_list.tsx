/** Steps of a plan with their reasons; each can be opened, and chosen for approval. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, query } from "../api/client";
import type { Plan, Progress, RunExplanation, Step } from "../api/types";
import { bytes, duration, percent, UNKNOWN, withDurations, words } from "../format";
import { useDocument } from "../live/loader";
import { secondsSince } from "../live/clock";
import { detailText } from "../metrics";
import { progressKey } from "../live/state";
import { pathOf } from "../plan_steps";
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
  const { what, from, to } = pathOf(step);
  const name = `${words(step.kind)} of ${what ?? to ?? step.id}`;
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
            <strong>{what ?? words(step.kind)}</strong>{" "}
            {from ? <span class="muted">{from} → </span> : null}
            {to}
          </span>
          <span class="muted step-kind">{words(step.kind)}</span>
        </button>
        <Outcome step={step} progress={isRunning(step) || running !== null ? running : null} />
      </div>
      {step.detail !== "" ? <p class="step-detail">{withDurations(step.detail)}</p> : null}
      {open ? <StepDetails step={step} plan={plan} progress={running} /> : null}
    </li>
  );
}

export function isRunning(step: Step): boolean {
  return step.started_at !== null && step.ended_at === null && step.outcome === null;
}

/** Seconds by which a running step exceeds its predicted duration; 0 if it does not, or has ended. */
export function lateSeconds(step: Step): number {
  if (!isRunning(step) || step.estimated_seconds === null) return 0;
  return Math.max(0, (secondsSince(step.started_at) ?? 0) - step.estimated_seconds);
}

/** Measured seconds of a step that ended; null before. */
function realizedSeconds(step: Step): number | null {
  if (step.started_at === null || step.ended_at === null) return null;
  return (Date.parse(step.ended_at) - Date.parse(step.started_at)) / 1000;
}

function Outcome(props: { step: Step; progress: Progress | null }): JSX.Element {
  const { step, progress } = props;
  if (isRunning(step) || (step.outcome === null && progress !== null)) {
    const moved = progress?.total && progress.remaining !== null ? ` ${percent(1 - progress.remaining / progress.total)}` : "";
    const late = lateSeconds(step);
    return (
      <span class="step-outcome">
        {late > 0 ? <span class="muted">{duration(late)} longer than predicted </span> : null}
        <StateBadge state="running" />
        {moved}
      </span>
    );
  }
  if (step.outcome !== null) {
    const took = realizedSeconds(step);
    return (
      <span class="step-outcome">
        <span class="muted">{took === null ? "" : `${duration(took)}, predicted ${duration(step.estimated_seconds)} `}</span>
        <StateBadge state={step.outcome} title={step.outcome_detail ?? ""} />
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
        {step.disk ? <>disk {step.disk.name} on <NodeLink id={step.target} />: {step.disk.source} → {step.disk.target}</> : <><NodeLink id={step.source} /> → <NodeLink id={step.target} /></>}
        {step.depends_on.length > 0 ? `; starts after ${step.depends_on.join(", ")}` : "; waits for no other step"}
        {group ? `; starts together with ${group.filter((id) => id !== step.id).join(", ")}` : ""}
      </p>
      {progress !== null ? <Transfer progress={progress} /> : null}
      {step.outcome_detail ? <p>{step.outcome_detail}</p> : null}
      <Explained run={plan.run} subject={step.guest ?? step.id} />
    </div>
  );
}

/** The explanation of a guest, or of a step without one, in the cycle of the plan. */
function Explained(props: { run: string; subject: string }): JSX.Element | null {
  const { run, subject } = props;
  const address = `/explanations${query({ run, subject })}`;
  const found = useDocument<RunExplanation>(address, (abort) => get(address, abort));
  if (found.error !== null) return <p class="muted">{found.error}</p>;
  if (found.value === null) return null;
  const { details, excluded } = found.value;
  return (
    <>
      <ul>
        {details.map((line, index) => (
          <li key={index}>{detailText(line)}</li>
        ))}
      </ul>
      {excluded !== null && excluded.length > 0 ? (
        <>
          <h3>Excluded nodes</h3>
          <ul class="excluded">
            {excluded.map((each) => (
              <li key={each.detail}>
                {each.detail}: {each.nodes.slice(0, SHOWN).join(", ")}
                {each.nodes.length > SHOWN ? `, and ${each.nodes.length - SHOWN} more` : ""}
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </>
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
