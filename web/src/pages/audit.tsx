/** Audit: every command of an operator, the newest first. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get, query, sentence, session } from "../api/client";
import type { AuditEntry, AuditList } from "../api/types";
import { Badge, Empty, ErrorNote, Heading, Pending } from "../components/parts";
import { rowsWhere, VirtualTable, type Column } from "../components/table";
import { dateTime, duration } from "../format";
import { useDocument } from "../live/loader";

function argumentText(name: string, value: unknown): string {
  if (name === "seconds" && typeof value === "number") return duration(value);
  if (typeof value !== "string") return JSON.stringify(value);
  return /^\d{4}-\d\d-\d\dT/.test(value) ? dateTime(value) : value;
}

function argumentsText(entry: AuditEntry | undefined): string {
  return Object.entries(entry?.arguments ?? {})
    .map(([name, value]) => `${name}: ${argumentText(name, value)}`)
    .join(", ");
}

function auditColumns(entries: readonly AuditEntry[]): Column[] {
  return [
    { key: "at", title: "Time", track: "12.5rem", value: (row) => entries[row]?.at ?? "", cell: (row) => dateTime(entries[row]?.at) },
    { key: "user", title: "User", track: "minmax(5rem, 0.8fr)", value: (row) => entries[row]?.user ?? "", cell: (row) => entries[row]?.user },
    { key: "command", title: "Command", track: "minmax(6rem, 0.8fr)", value: (row) => entries[row]?.command ?? "", cell: (row) => entries[row]?.command },
    { key: "arguments", title: "Arguments", track: "minmax(10rem, 3fr)", wide: true, cell: (row) => <span title={argumentsText(entries[row])}>{argumentsText(entries[row])}</span> },
    { key: "origin", title: "Origin", track: "6rem", wide: true, value: (row) => entries[row]?.origin ?? "", cell: (row) => entries[row]?.origin },
    { key: "address", title: "Address", track: "8rem", wide: true, value: (row) => entries[row]?.address ?? null, cell: (row) => entries[row]?.address ?? "" },
    { key: "result", title: "Result", track: "7rem", wide: true, value: (row) => entries[row]?.result ?? "", cell: (row) => <Badge tone={entries[row]?.result === "done" ? "ok" : "warning"}>{entries[row]?.result}</Badge> },
  ];
}

const PAGE = 200;

export function Audit(): JSX.Element {
  const [older, setOlder] = useState<AuditList | null>(null);
  const [error, setError] = useState<string | null>(null);
  const allowed = session.value?.role === "admin";
  const found = useDocument<AuditList | null>(`audit ${allowed}`, async (abort) => (allowed ? get(`/audit${query({ limit: PAGE })}`, abort) : null));
  const entries = useMemo(() => [...(found.value?.actions ?? []), ...(older?.actions ?? [])], [found.value, older]);
  const columns = useMemo(() => auditColumns(entries), [entries]);
  const rows = useMemo(() => rowsWhere(entries.length, () => true), [entries]);
  const next = older === null ? found.value?.next : older.next;
  const loadOlder = async (): Promise<void> => {
    try {
      const page = await get<AuditList>(`/audit${query({ limit: PAGE, cursor: next })}`);
      setOlder((former) => ({ actions: [...(former?.actions ?? []), ...page.actions], next: page.next }));
      setError(null);
    } catch (problem) {
      setError(sentence(problem));
    }
  };
  return (
    <>
      <Heading title="Audit" text="Every command of an operator: from where, what, and its result." />
      {!allowed ? (
        <Empty>The audit is open to the role admin.</Empty>
      ) : found.value === null ? (
        <Pending error={found.error} reload={found.reload} what="the audit" />
      ) : (
        <>
          <VirtualTable label="Audit" noun="command" columns={columns} rows={rows} initial="-at" empty="No command is recorded." />
          {error !== null ? <ErrorNote text={error} /> : null}
          {next ? (
            <button type="button" class="button" onClick={() => void loadOlder()}>
              Load older entries
            </button>
          ) : null}
        </>
      )}
    </>
  );
}
