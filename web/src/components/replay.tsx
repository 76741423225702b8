/** The decision of another policy, or of other settings, about a recorded cluster. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { JobRunner } from "./job";

export const POLICIES = ["balance", "auto-rebalance", "threshold-rebalance", "pressure", "repair", "consolidate", "optimize"];

/** Return settings such as `threshold=0.2 method=topsis` by name; null if one has another form. */
function settingsOf(text: string): Record<string, unknown> | null {
  const parts = text.split(/[\s,]+/).filter(Boolean).map((part) => /^(\w+)=(.+)$/.exec(part));
  if (parts.includes(null)) return null;
  return Object.fromEntries(parts.map((part) => [part?.[1] ?? "", valueOf(part?.[2] ?? "")]));
}

function valueOf(text: string): unknown {
  if (text === "true" || text === "false") return text === "true";
  return Number.isNaN(Number(text)) ? text : Number(text);
}

export function ReplayRunner(props: { run?: string; first?: string; action: string }): JSX.Element {
  const [policy, setPolicy] = useState(props.first !== undefined && POLICIES.includes(props.first) ? props.first : "balance");
  const [settings, setSettings] = useState("");
  const run = props.run === undefined ? {} : { run: props.run };
  return (
    <JobRunner kind="replay" request={{ ...run, policy, settings: settingsOf(settings) ?? {} }} action={props.action}>
      <label class="field">
        <span>Policy</span>
        <select class="input" value={policy} onChange={(event) => setPolicy(event.currentTarget.value)}>
          {POLICIES.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>Other settings</span>
        <input
          class="input"
          placeholder="threshold=0.2 max_migrations=3"
          value={settings}
          onInput={(event) => {
            const field = event.currentTarget;
            field.setCustomValidity(settingsOf(field.value) === null ? "Expected NAME=VALUE, separated by spaces" : "");
            setSettings(field.value);
          }}
        />
      </label>
    </JobRunner>
  );
}
