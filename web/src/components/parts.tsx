/** Small parts that the screens share. */

import type { ComponentChildren, JSX } from "preact";
import type { Severity } from "../api/types";
import { percent, UNKNOWN, withDurations, words } from "../format";
import { pathOf, type Moving } from "../plan_steps";
import { href } from "../router";

type Tone = "ok" | "warning" | "error" | "accent" | "neutral";

export function Badge(props: { tone?: Tone; title?: string; children: ComponentChildren }): JSX.Element {
  return (
    <span class={`badge badge-${props.tone ?? "neutral"}`} title={props.title}>
      {props.children}
    </span>
  );
}

const TONES: Record<string, Tone> = {
  proposed: "accent",
  approved: "accent",
  running: "accent",
  done: "ok",
  kept: "ok",
  online: "ok",
  failed: "error",
  lost: "error",
  aborted: "error",
  violated: "error",
  contradictory: "error",
  unreachable: "error",
  offline: "error",
  draining: "accent",
  rejected: "warning",
  cancelled: "warning",
  maintenance: "warning",
  excluded: "warning",
  error: "error",
  warning: "warning",
};

/** A state of a closed list: its name, and a color beside it. */
export function StateBadge(props: { state: string; title?: string }): JSX.Element {
  return (
    <Badge tone={TONES[props.state] ?? "neutral"} {...(props.title ? { title: props.title } : {})}>
      {words(props.state)}
    </Badge>
  );
}

/** The code of a reason as a badge, and its sentence without a repetition of the code. */
export function ReasonText(props: { code: string; text: string }): JSX.Element {
  const { code, text } = props;
  const name = words(code);
  const plain = text.replace(`${code}: `, "");
  const rest = plain === name ? "" : plain.startsWith(`${name}: `) ? plain.slice(name.length + 2) : plain;
  return (
    <>
      <Badge>{name}</Badge> {withDurations(rest)}
    </>
  );
}

/** What a step moves, from where and to where, without links. */
export function StepPath(props: { step: Moving }): JSX.Element {
  const { what, from, to } = pathOf(props.step);
  return (
    <>
      {what ?? props.step.kind} <span class="muted">{from}</span> → {to}
    </>
  );
}

export function Mark(props: { severity: Severity }): JSX.Element {
  const sign = props.severity === "error" ? "!" : props.severity === "warning" ? "▲" : "i";
  return (
    <span class={`mark mark-${props.severity}`} role="img" aria-label={props.severity}>
      {sign}
    </span>
  );
}

export function Panel(props: {
  title: string;
  children: ComponentChildren;
  actions?: ComponentChildren;
  class?: string;
}): JSX.Element {
  return (
    <section class={`panel ${props.class ?? ""}`} aria-label={props.title}>
      <header class="panel-header">
        <h2>{props.title}</h2>
        {props.actions}
      </header>
      {props.children}
    </section>
  );
}

export function Heading(props: {
  title: ComponentChildren;
  text?: ComponentChildren;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <header class="heading">
      <div>
        <h1>{props.title}</h1>
        {props.text ? <p class="muted">{props.text}</p> : null}
      </div>
      {props.children ? <div class="heading-actions">{props.children}</div> : null}
    </header>
  );
}

export function Empty(props: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{props.children}</p>;
}

export function ErrorNote(props: { text: string; retry?: () => void }): JSX.Element {
  return (
    <div class="note note-error" role="alert">
      <span>{props.text}</span>
      {props.retry ? (
        <button type="button" class="button" onClick={props.retry}>
          Retry
        </button>
      ) : null}
    </div>
  );
}

/** What a screen shows before its document is there, or if it cannot be loaded. */
export function Pending(props: { error: string | null; reload: () => void; what: string }): JSX.Element {
  if (props.error !== null) return <ErrorNote text={props.error} retry={props.reload} />;
  return <Empty>Loading {props.what} …</Empty>;
}

/** A load as a bar with its number; a dash if it is unknown. */
export function Bar(props: { value: number | null | undefined; kind?: "cpu" | "memory" }): JSX.Element {
  const { value } = props;
  const width = value == null ? 0 : Math.min(1, Math.max(0, value));
  return (
    <span class="bar-cell">
      <span class={`bar bar-${props.kind ?? "cpu"}`} aria-hidden="true">
        <span style={{ width: `${100 * width}%` }} />
      </span>
      <span class="number">{percent(value)}</span>
    </span>
  );
}

/** A load before and after. */
export function Change(props: {
  before: number | null | undefined;
  after: number | null | undefined;
  show: (value: number | null | undefined) => string;
}): JSX.Element {
  return (
    <span class="number nowrap">
      {props.show(props.before)} <span class="muted">→</span> {props.show(props.after)}
    </span>
  );
}

export function NodeLink(props: { id: string | null }): JSX.Element {
  if (props.id === null) return <span>{UNKNOWN}</span>;
  return <a href={href("nodes", props.id)}>{props.id}</a>;
}

export function GuestLink(props: { id: string | null }): JSX.Element {
  if (props.id === null) return <span>{UNKNOWN}</span>;
  return <a href={href("guests", props.id)}>{props.id}</a>;
}

/** Facts as a list of terms. */
export function Facts(props: { items: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {props.items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}): JSX.Element {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

export function Search(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <input
      type="search"
      class="input"
      aria-label={props.label}
      placeholder={props.label}
      value={props.value}
      onInput={(event) => props.onChange(event.currentTarget.value)}
    />
  );
}

export function Select(props: {
  label: string;
  value: string;
  options: readonly (readonly [string, string])[];
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <select
      class="input"
      aria-label={props.label}
      value={props.value}
      onChange={(event) => props.onChange(event.currentTarget.value)}
    >
      {props.options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}
