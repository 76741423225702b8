/** Steps of a plan in time, with their dependencies. */

import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Plan, Progress, Step } from "../api/types";
import { duration, words } from "../format";
import { clock } from "../live/clock";
import { progressKey } from "../live/state";
import { criticalPath, pathOf } from "../plan_steps";
import { Empty } from "./parts";
import { lateSeconds } from "./step_list";

const ROW = 26;
const AXIS = 22;
const SHOWN = 150;
const TICK_WIDTH = 64;
const MOST_TICKS = 8;
const TICK_STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400];

interface Placed {
  step: Step;
  start: number;
  end: number;
}

/**
 * Return the times of the steps: real ones as far as they are known, else estimates.
 *
 * The steps that wait keep the estimated distances from each other, and with them the limit
 * of parallel migrations. The first of them starts when a running step ends.
 */
function placed(steps: readonly Step[]): Placed[] {
  const approved = steps.filter((step) => step.approved !== false);
  const started = startedSteps(approved);
  const waiting = approved.flatMap((step) => (step.started_at === null && step.estimated_start !== null ? [{ step, start: step.estimated_start }] : []));
  const shift = started.length === 0 ? 0 : nextStart(started) - Math.min(...waiting.map(({ start }) => start));
  const later = waiting.map(({ step, start }) => ({ step, start: start + shift, end: start + shift + (step.estimated_seconds ?? 0) }));
  return [...started, ...later].sort((a, b) => a.start - b.start);
}

function startedSteps(steps: readonly Step[]): Placed[] {
  const times = steps.flatMap((step) => (step.started_at === null ? [] : [{ step, at: Date.parse(step.started_at) }]));
  const origin = Math.min(...times.map(({ at }) => at));
  return times.map(({ step, at }) => {
    const start = (at - origin) / 1000;
    const end = step.ended_at === null ? start + (step.estimated_seconds ?? 0) + lateSeconds(step) : (Date.parse(step.ended_at) - origin) / 1000;
    return { step, start, end };
  });
}

/** Return the time when the next step is expected to start. */
function nextStart(started: readonly Placed[]): number {
  const latest = Math.max(...started.map(({ step, start, end }) => (step.ended_at === null ? start : end)));
  const running = started.filter(({ step }) => step.ended_at === null);
  return running.length === 0 ? latest : Math.max(latest, Math.min(...running.map(({ end }) => end)));
}

export function Gantt(props: {
  plan: Plan;
  progress: ReadonlyMap<string, Progress>;
  chosen: ReadonlySet<string> | null;
  selected: string | null;
  onSelect: (step: string) => void;
}): JSX.Element {
  const { plan } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  const [all, setAll] = useState(false);
  const now = plan.state === "running" ? clock.value : 0; // a running step that is late becomes longer
  const bars = useMemo(() => placed(plan.steps), [plan.steps, now]);
  const critical = useMemo(() => new Set(criticalPath(plan.steps)), [plan.steps]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  if (bars.length === 0) return <Empty>The times of this plan are not known.</Empty>;
  const shown = all ? bars : bars.slice(0, SHOWN);
  const total = Math.max(1, ...bars.map((bar) => bar.end));
  const labelWidth = width < 560 ? 96 : 210;
  const scale = (Math.max(120, width - labelWidth) - 12) / total;
  const rows = new Map(shown.map((bar, row) => [bar.step.id, { bar, row }]));
  const x = (seconds: number): number => labelWidth + seconds * scale;
  const height = AXIS + shown.length * ROW + 4;
  return (
    <div class="gantt" ref={box}>
      <svg width={width} height={height} role="img" aria-label={`Order of ${bars.length} steps in time; the table of steps has the same`}>
        {ticksOf(total, Math.min(MOST_TICKS, Math.max(2, Math.floor((scale * total) / TICK_WIDTH)))).map((tick) => (
          <g key={tick}>
            <line class="gantt-tick" x1={x(tick)} x2={x(tick)} y1={AXIS - 4} y2={height} />
            <text
              class="gantt-axis"
              x={x(tick)}
              y={12}
              text-anchor={tick === 0 ? "start" : x(tick) > width - 30 ? "end" : "middle"}
            >
              {duration(tick)}
            </text>
          </g>
        ))}
        {shown.map((bar, row) => (
          <Row
            key={bar.step.id}
            bar={bar}
            y={AXIS + row * ROW}
            x={x}
            width={width}
            labelWidth={labelWidth}
            critical={critical.has(bar.step.id)}
            faded={props.chosen !== null && !props.chosen.has(bar.step.id)}
            selected={props.selected === bar.step.id}
            progress={props.progress.get(progressKey(plan.run, bar.step.id)) ?? null}
            onSelect={props.onSelect}
          />
        ))}
        {shown.flatMap((bar, row) =>
          bar.step.depends_on.flatMap((name) => {
            const from = rows.get(name);
            if (from === undefined) return [];
            return [<Link key={`${name} ${bar.step.id}`} x1={x(from.bar.end)} row1={from.row} x2={x(bar.start)} row2={row} />];
          }),
        )}
      </svg>
      {bars.length > SHOWN && !all ? (
        <button type="button" class="button" onClick={() => setAll(true)}>
          Show all {bars.length} steps
        </button>
      ) : null}
    </div>
  );
}

/** Return at most *most* round numbers of seconds up to *total*, after 0. */
function ticksOf(total: number, most: number): number[] {
  const step = TICK_STEPS.find((each) => total / each <= most) ?? total / most;
  return Array.from({ length: Math.floor(total / step) + 1 }, (_, index) => index * step);
}

function share(step: Step, progress: Progress | null): number {
  if (step.outcome === "done") return 1;
  if (progress?.total == null || progress.remaining === null || progress.total === 0) return 0;
  return Math.min(1, Math.max(0, 1 - progress.remaining / progress.total));
}

function Row(props: {
  bar: Placed;
  y: number;
  x: (seconds: number) => number;
  width: number;
  labelWidth: number;
  critical: boolean;
  faded: boolean;
  selected: boolean;
  progress: Progress | null;
  onSelect: (step: string) => void;
}): JSX.Element {
  const { bar, y, x } = props;
  const { step } = bar;
  const left = x(bar.start);
  const size = Math.max(4, x(bar.end) - left);
  const done = share(step, props.progress);
  const { what, to } = pathOf(step);
  const name = what ?? to ?? step.id;
  const label = props.labelWidth < 150 ? `${name}` : `${step.id}  ${name} → ${to ?? ""}`;
  const most = Math.floor(props.labelWidth / 6.6);
  const tone = step.outcome === null || step.outcome === "done" ? "" : " gantt-failed";
  return (
    <g
      class={`gantt-row${props.faded ? " faded" : ""}${props.selected ? " selected" : ""}`}
      onClick={() => props.onSelect(step.id)}
    >
      <title>{`${step.id}: ${words(step.kind)} of ${name} to ${to ?? ""}, ${duration(bar.start)} to ${duration(bar.end)}`}</title>
      <rect class="gantt-hit" x={0} y={y} width={props.width} height={ROW} />
      <text class="gantt-label" x={4} y={y + 17}>
        {label.length > most ? `${label.slice(0, most - 1)}…` : label}
      </text>
      <rect
        class={`gantt-bar${props.critical ? " critical" : ""}${tone}`}
        x={left}
        y={y + 6}
        width={size}
        height={ROW - 12}
        rx={2}
      />
      {done > 0 ? <rect class="gantt-done" x={left} y={y + 6} width={size * done} height={ROW - 12} rx={2} /> : null}
    </g>
  );
}

function Link(props: { x1: number; row1: number; x2: number; row2: number }): JSX.Element {
  const y1 = AXIS + props.row1 * ROW + ROW / 2;
  const y2 = AXIS + props.row2 * ROW + ROW / 2;
  const bend = Math.min(props.x1 + 5, Math.max(props.x1, props.x2 - 3));
  const path = `M${props.x1} ${y1}H${bend}V${y2}H${props.x2 - 1}`;
  return (
    <g>
      <path class="gantt-link" d={path} />
      <path class="gantt-head" d={`M${props.x2} ${y2}l-5 -3v6z`} />
    </g>
  );
}
