/** Audit: every command of an operator, the newest first. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get, query, session } from "../api/client";
import type { AuditEntry, AuditList } from "../api/types";
import { Badge, Empty, Heading, Pending } from "../components/parts";
import { rowsWhere, VirtualTable, type Column } from "../components/table";
import { dateTime } from "../format";
import { useDocument } from "../live/loader";

function argumentsText(entry: AuditEntry | undefined): string {
  return Object.entries(entry?.arguments ?? {})
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}

function auditColumns(entries: readonly AuditEntry[]): Column[] {
  return [
    { key: "at", title: "Time", track: "10.5rem", value: (row) => entries[row]?.at ?? "", cell: (row) => dateTime(entries[row]?.at) },
    { key: "user", title: "User", track: "minmax(5rem, 0.8fr)", value: (row) => entries[row]?.user ?? "", cell: (row) => entries[row]?.user },
    { key: "command", title: "Command", track: "minmax(6rem, 0.8fr)", value: (row) => entries[row]?.command ?? "", cell: (row) => entries[row]?.command },
    { key: "arguments", title: "Arguments", track: "minmax(10rem, 3fr)", wide: true, cell: (row) => <span title={argumentsText(entries[row])}>{argumentsText(entries[row])}</span> },
    { key: "origin", title: "Origin", track: "6rem", wide: true, value: (row) => entries[row]?.origin ?? "", cell: (row) => entries[row]?.origin },
    { key: "address", title: "Address", track: "8rem", wide: true, value: (row) => entries[row]?.address ?? null, cell: (row) => entries[row]?.address ?? "" },
    { key: "result", title: "Result", track: "7rem", value: (row) => entries[row]?.result ?? "", cell: (row) => <Badge tone={entries[row]?.result === "done" ? "ok" : "warning"}>{entries[row]?.result}</Badge> },
  ];
}

export function Audit(): JSX.Element {
  const [limit, setLimit] = useState(200);
  const allowed = session.value?.role === "admin";
  const found = useDocument<AuditList | null>(
    `audit ${allowed}`,
    async (abort) => (allowed ? get(`/audit${query({ limit })}`, abort) : null),
    limit,
  );
  const entries = found.value?.actions;
  const columns = useMemo(() => auditColumns(entries ?? []), [entries]);
  const rows = useMemo(() => rowsWhere(entries?.length ?? 0, () => true), [entries]);
  return (
    <>
      <Heading title="Audit" text="Every command of an operator: from where, what, and its result." />
      {!allowed ? (
        <Empty>The audit is open to the role admin.</Empty>
      ) : entries === undefined ? (
        <Pending error={found.error} reload={found.reload} what="the audit" />
      ) : (
        <>
          <VirtualTable label="Audit" noun="command" columns={columns} rows={rows} initial="-at" empty="No command is recorded." />
          {found.value?.next && limit < 1000 ? (
            <button type="button" class="button" onClick={() => setLimit(1000)}>
              Load older entries
            </button>
          ) : null}
        </>
      )}
    </>
  );
}
