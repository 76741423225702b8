/** Time series, drawn by uPlot, with a table of the same values. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Series } from "../api/types";
import { bytes, dateTime, percent, shortTime } from "../format";
import { isDark, themeColor } from "../theme";
import { Empty } from "./parts";

export interface Line {
  name: string;
  label: string;
}

type Show = (value: number | null | undefined) => string;

const ROWS = 40;
/** Steps of an axis of bytes. */
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Steps of an axis of time. Each is at most 2.5 times the one before, so that also a narrow chart has a time on its axis. */
const TIMES = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE),
  ...[1, 2, 4, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((each) => each * DAY),
];

function valuesOf(series: Series, name: string): (number | null)[] {
  const column = (series as unknown as Record<string, (number | null)[] | undefined>)[name];
  return column ?? series.at.map(() => null);
}

/** Return times of an axis: 18:05, with seconds if they are close, 11-23 if days apart. */
function axisTimes(seconds: readonly number[]): string[] {
  const step = (seconds[1] ?? 0) - (seconds[0] ?? 0);
  return seconds.map((each) => {
    const text = dateTime(new Date(1000 * each).toISOString());
    if (step >= 86_400) return text.slice(5, 10);
    return step < 60 ? text.slice(11) : text.slice(11, 16);
  });
}

/** Without a pointer over the plot, the legend shows the last values. */
function showLast(plot: uPlot): void {
  if (plot.cursor.idx == null) plot.setLegend({ idx: plot.data[0].length - 1 });
}

function optionsOf(lines: readonly Line[], show: Show, whole: boolean, width: number, height: number): uPlot.Options {
  const incrs = show === bytes ? BINARY : whole ? WHOLE : null;
  const least = whole ? 4 : 0.01;
  const axis = { stroke: themeColor("muted"), grid: { stroke: themeColor("line"), width: 1 }, ticks: { show: false } };
  const font = "11px -apple-system, 'Segoe UI', Roboto, Cantarell, 'Liberation Sans', Arial, sans-serif";
  return {
    width,
    height,
    padding: [10, 24, 0, 0],
    legend: { live: true },
    cursor: { y: false, points: { size: 6 } },
    hooks: { draw: [showLast], setCursor: [showLast] },
    scales: { y: { range: (_plot, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, least) * 1.08] } },
    axes: [
      { ...axis, font, space: 60, size: 28, incrs: TIMES, values: (_plot, values) => axisTimes(values) },
      { ...axis, font, size: 56, ...(incrs ? { incrs } : {}), values: (_plot, values) => values.map((value) => show(value)) },
    ],
    series: [
      { value: (_plot, value) => (value == null ? "–" : shortTime(new Date(1000 * value).toISOString())) },
      ...lines.map(({ label }, index) => ({
        label,
        stroke: themeColor(`series-${index + 1}`),
        width: 1.75,
        ...(index === 0 ? {} : { dash: index === 1 ? [6, 3] : [2, 2] }),
        points: { show: false },
        value: (_plot: uPlot, value: number | null) => show(value),
      })),
    ],
  };
}

export function Chart(props: {
  label: string;
  series: Series | null;
  lines: readonly Line[];
  show?: Show;
  height?: number;
  /** Values are whole numbers. */
  whole?: boolean;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const show = props.show ?? percent;
  const { series, lines } = props;
  const dark = isDark.value;
  const height = props.height ?? 150;
  const data = useMemo<uPlot.AlignedData | null>(() => {
    if (series === null || series.at.length < 2) return null; // a single point has no axis of time
    const times = series.at.map((text) => Date.parse(text) / 1000);
    return [times, ...lines.map(({ name }) => valuesOf(series, name))];
  }, [series, lines]);
  const names = lines.map(({ name }) => name).join(" ");
  useEffect(() => {
    const element = box.current;
    if (element === null || data === null) return undefined;
    const made = new uPlot(optionsOf(lines, show, props.whole === true, element.clientWidth, height), data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, dark, height, data === null]);
  useEffect(() => {
    if (data !== null) plot.current?.setData(data);
  }, [data]);
  if (series === null) return <Empty>Loading the values …</Empty>;
  if (data === null) return <Empty>Fewer than two values are recorded.</Empty>;
  return (
    <figure class="chart" aria-label={props.label}>
      <div ref={box} aria-hidden="true" style={{ minHeight: `${height}px` }} />
      <figcaption>
        <details>
          <summary>{props.label} as a table</summary>
          <SeriesTable series={series} lines={lines} show={show} />
        </details>
      </figcaption>
    </figure>
  );
}

function SeriesTable(props: { series: Series; lines: readonly Line[]; show: Show }): JSX.Element {
  const { series, lines, show } = props;
  const total = series.at.length;
  const step = Math.max(1, Math.ceil(total / ROWS));
  const rows = Array.from({ length: Math.ceil(total / step) }, (_, index) => total - 1 - index * step);
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">Time</th>
          {lines.map(({ name, label }) => (
            <th key={name} scope="col" class="numeric">
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.filter((row) => row >= 0).map((row) => (
          <tr key={row}>
            <th scope="row">{shortTime(series.at[row] ?? "")}</th>
            {lines.map(({ name }) => (
              <td key={name} class="numeric">
                {show(valuesOf(series, name)[row])}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A small line with its least and its greatest value, beside a figure that is given as text. */
export function Sparkline(props: { values: readonly (number | null)[]; show: (value: number) => string }): JSX.Element | null {
  const known = props.values.filter((value): value is number => value !== null);
  if (known.length < 2) return null;
  const low = Math.min(...known);
  const high = Math.max(...known);
  const span = high - low || 1;
  const scale = `${props.show(low)} – ${props.show(high)}`;
  const last = props.values.length - 1;
  const points = props.values
    .map((value, index) => (value === null ? null : `${((index / last) * 88 + 1).toFixed(1)},${(21 - ((value - low) / span) * 20).toFixed(1)}`))
    .filter(Boolean)
    .join(" ");
  return (
    <span class="sparkline" aria-hidden="true" title={`Last 24 hours: ${scale}`}>
      <svg viewBox="0 0 90 22" preserveAspectRatio="none">
        <polyline points={points} />
      </svg>
      <span>{scale}</span>
    </span>
  );
}
