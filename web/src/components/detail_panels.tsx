/** Panels that the pages of a node and of a guest share. */

import type { JSX } from "preact";
import type { Explanation, Move, NodeDetails, RuleDocument } from "../api/types";
import { bytes, count, dateTime, duration, label, percent, shortTime, UNKNOWN, withDurations, words } from "../format";
import { detailText } from "../metrics";
import { href } from "../router";
import { Empty, GuestLink, NodeLink, Panel, ReasonText, StateBadge, StepPath } from "./parts";
import { approvalText, PlanLink } from "./plan_state";

/** Facts that are shown although they are unknown. */
const MEASURED: ReadonlySet<string> = new Set(["cpu", "memory"]);

/** Facts in cores. */
const CORES: ReadonlySet<string> = new Set(["cpu", "cpu_capacity", "cpu_limit"]);

export function factItems(facts: NodeDetails["facts"]): [string, string][] {
  return Object.entries(facts)
    .filter(([name, value]) => value !== null || MEASURED.has(name))
    .map(([name, value]) => [label(name), factText(name, value)]);
}

function factText(name: string, value: string | number | null): string {
  if (value === null) return UNKNOWN;
  if (name === "mobility") return words(`mobility-${value}`);
  if (typeof value === "string") return /^\d{4}-\d\d-\d\dT/.test(value) ? dateTime(value) : value;
  if (name.endsWith("_pressure")) return percent(value, 1);
  if (name.includes("memory") || name === "ksm_shared") return bytes(value);
  if (CORES.has(name)) return `${Number.isInteger(value) ? value : value.toFixed(2)} cores`;
  if (name === "dirty_rate") return `${bytes(value)}/s`;
  if (name === "uptime") return duration(value);
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

/** Steps of open plans that concern a node or a guest. */
export function PlannedPanel(props: { planned: NodeDetails["planned"] }): JSX.Element {
  const { planned } = props;
  return (
    <Panel title={planned.length === 0 ? "Planned" : `Planned (${count(planned.length, "step")})`}>
      {planned.length === 0 ? (
        <Empty>No plan that waits or runs has a step for it.</Empty>
      ) : (
        <ul class="list planned">
          {planned.map((step) => (
            <li key={`${step.plan} ${step.step}`}>
              <StateBadge state={step.running ? "running" : step.plan_state === "running" ? "waiting" : step.plan_state} />
              <span>
                <StepPath step={step} /> <span class="muted">{words(step.kind)}, step {step.step} of plan</span> <a href={href("plans", step.plan)}>{step.plan}</a>
                {step.detail === "" ? null : <span class="detail">{step.detail}</span>}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

export function DetailPanels(props: {
  explanation: Explanation | null;
  rules: readonly RuleDocument[];
  moves: readonly Move[];
}): JSX.Element {
  return (
    <>
      <div class="columns">
        <ExplanationPanel explanation={props.explanation} />
        <Panel title={`Rules (${props.rules.length})`}>
          {props.rules.length === 0 ? (
            <Empty>No rule applies.</Empty>
          ) : (
            <ul class="list">
              {props.rules.map((rule) => (
                <li key={rule.rule}>
                  <StateBadge state={rule.state} />
                  <span>
                    <strong>{rule.rule}</strong> <span class="muted">{words(rule.kind)}, {rule.strict ? "strict" : "soft"}</span>
                    {rule.detail ? <span class="detail">{rule.detail}</span> : null}
                  </span>
                </li>
              ))}
            </ul>
          )}
        </Panel>
      </div>
      <Panel title="Moves">
        <MoveTable moves={props.moves} />
      </Panel>
    </>
  );
}

function ExplanationPanel(props: { explanation: Explanation | null }): JSX.Element {
  const { explanation } = props;
  if (explanation === null) return <Panel title="Explanation"><Empty>The last decision says nothing about it.</Empty></Panel>;
  const { change } = explanation;
  return (
    <Panel title="Explanation">
      <p class="sentence">
        {explanation.code === "node" ? explanation.answer : <ReasonText code={explanation.code} text={explanation.answer} />}
      </p>
      {change ? <p class="sentence"><strong>What would have to change:</strong> {change}</p> : null}
      <ul class="details">
        {explanation.details.map((line, index) => (
          <li key={index}>{detailText(line)}</li>
        ))}
      </ul>
    </Panel>
  );
}

export function MoveTable(props: { moves: readonly Move[] }): JSX.Element {
  const { moves } = props;
  if (moves.length === 0) return <Empty>No moves are recorded.</Empty>;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Moves">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Started</th>
            <th scope="col">Guest</th>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col">Outcome</th>
            <th scope="col">Reason</th>
            <th scope="col">Plan</th>
            <th scope="col">Approved by</th>
            <th scope="col" class="numeric">Predicted</th>
            <th scope="col" class="numeric">Took</th>
          </tr>
        </thead>
        <tbody>
          {moves.map((move) => (
            <tr key={`${move.run} ${move.step}`}>
              <td class="nowrap">{shortTime(move.intended_at)}</td>
              <td><GuestLink id={move.guest} /></td>
              <td>{move.disk ? `${move.disk.name}: ${move.disk.source}` : <NodeLink id={move.source} />}</td>
              <td>{move.disk ? move.disk.target : <NodeLink id={move.target} />}</td>
              <td><StateBadge state={move.outcome ?? "running"} title={withDurations(move.detail)} /></td>
              <td class="nowrap">{move.reason === null ? UNKNOWN : words(move.reason)}</td>
              <td><PlanLink plan={move.plan} /></td>
              <td class="nowrap">{approvalText(move.plan)}</td>
              <td class="numeric">{duration(move.predicted_seconds)}</td>
              <td class="numeric">{duration(move.seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
