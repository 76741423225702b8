/** Answers of jobs: objects as terms, lists of objects as tables. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { bytes, dateTime, UNKNOWN, words } from "../format";
import { Empty } from "./parts";

const SHOWN = 50;

type Record_ = Record<string, unknown>;

function isRecord(value: unknown): value is Record_ {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isFlat(value: unknown): boolean {
  return !isRecord(value) && !(Array.isArray(value) && value.some(isRecord));
}

/** Return a single value as text; the name gives its unit. */
export function valueText(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return UNKNOWN;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map((each) => valueText(name, each)).join(", ");
  if (typeof value === "number") {
    if (name.includes("memory") && Math.abs(value) > 4096) return bytes(value);
    if (/share|load|fraction/.test(name) && Math.abs(value) <= 2) return `${(100 * value).toFixed(1)}%`;
    return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(3);
  }
  if (typeof value === "string") return /^\d{4}-\d\d-\d\dT/.test(value) ? dateTime(value) : value;
  return JSON.stringify(value);
}

export function Answer(props: { kind: string; result: unknown }): JSX.Element {
  const { result } = props;
  if (!isRecord(result)) return <Empty>The answer is empty.</Empty>;
  return (
    <div class="answer">
      <Value name="" value={result} depth={0} />
    </div>
  );
}

function Value(props: { name: string; value: unknown; depth: number }): JSX.Element {
  const { name, value, depth } = props;
  if (isRecord(value)) return <Terms value={value} depth={depth} />;
  if (Array.isArray(value) && value.some(isRecord)) return <Rows name={name} rows={value.filter(isRecord)} />;
  return <span>{valueText(name, value)}</span>;
}

function Terms(props: { value: Record_; depth: number }): JSX.Element {
  const entries = Object.entries(props.value);
  const flat = entries.filter(([, value]) => isFlat(value));
  const nested = entries.filter(([, value]) => !isFlat(value));
  return (
    <>
      {flat.length > 0 ? (
        <table class="plain">
          <tbody>
            {flat.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{words(name)}</th>
                <td>{valueText(name, value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      {nested.map(([name, value]) => (
        <section key={name} class="nested" aria-label={words(name)}>
          <h3>{words(name)}</h3>
          <Value name={name} value={value} depth={props.depth + 1} />
        </section>
      ))}
    </>
  );
}

function Rows(props: { name: string; rows: readonly Record_[] }): JSX.Element {
  const [all, setAll] = useState(false);
  const { rows, name } = props;
  const columns = [...new Set(rows.slice(0, SHOWN).flatMap((row) => Object.keys(row)))];
  const shown = all ? rows : rows.slice(0, SHOWN);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={words(name)}>
      <table class="plain">
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {words(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row, index) => (
            <tr key={index}>
              {columns.map((column) => (
                <td key={column}>{valueText(column, row[column])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < rows.length ? (
        <button type="button" class="button more" onClick={() => setAll(true)}>
          Show all {rows.length}
        </button>
      ) : null}
    </div>
  );
}
