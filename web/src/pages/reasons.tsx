/** Why nothing, and why not this guest: reasons to guests, and to all that stay. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get, query } from "../api/client";
import type { Explanation, ReasonList } from "../api/types";
import { detailLines } from "../metrics";
import { nodeOf } from "../cluster";
import { Empty, GuestLink, Heading, NodeLink, Panel, Pending, ReasonText, Search } from "../components/parts";
import { rowsWhere, VirtualTable, type Column } from "../components/table";
import { count, dateTime, withDurations, words } from "../format";
import { useDocument } from "../live/loader";
import type { State } from "../live/delta";
import { state } from "../live/state";
import { route, setParameter } from "../router";

export function Reasons(): JSX.Element {
  const shown = state.value;
  if (shown === null) return <Empty>Loading the state of the cluster …</Empty>;
  return (
    <>
      <Heading title="Why nothing, why not this" text="The last decision, and why each guest stays where it is." />
      <Decision state={shown} />
      <Stays state={shown} />
    </>
  );
}

function Decision(props: { state: State }): JSX.Element {
  const { last_cycle: cycle } = props.state.controller;
  const run = cycle?.run ?? "";
  const found = useDocument<Explanation | null>(`explanation ${run}`, async (abort) => {
    if (run === "") return null;
    return get<Explanation>(`/explanations${query({ run })}`, abort);
  });
  if (cycle === null) return <Panel title="Last decision"><Empty>No decision has been made yet.</Empty></Panel>;
  return (
    <Panel title="Last decision" actions={<span class="muted">{dateTime(cycle.ended_at)}</span>}>
      <p class="sentence">
        <ReasonText code={cycle.reason} text={props.state.nothing?.sentence ?? cycle.detail} />
      </p>
      {found.error !== null ? <Pending error={found.error} reload={found.reload} what="" /> : null}
      {found.value ? (
        <ul class="details wide">
          {detailLines(found.value.details).map((line, index) => (
            <li key={index}>{line}</li>
          ))}
        </ul>
      ) : null}
    </Panel>
  );
}

/** Return the reason of each guest of *ids*; null if it is part of the plan. */
function codesOf(ids: readonly string[], reasons: ReasonList["reasons"]): (string | null)[] {
  const codes = new Map(reasons.flatMap(({ code, guests }) => guests.map((guest) => [guest, code] as const)));
  return ids.map((id) => codes.get(id) ?? null);
}

function Stays(props: { state: State }): JSX.Element {
  const { guests, nodes, controller } = props.state;
  const run = controller.last_cycle?.run ?? "";
  const found = useDocument<ReasonList>("reasons", (abort) => get("/reasons", abort), run);
  const reasons = found.value?.reasons;
  const chosen = route.value.query.get("code");
  const searched = (route.value.query.get("q") ?? "").toLowerCase();
  const changes = useMemo(() => new Map(reasons?.map((each) => [each.code, each.change])), [reasons]);
  const codes = useMemo(() => codesOf(guests.id, reasons ?? []), [guests.id, reasons]);
  const rows = useMemo(
    () =>
      rowsWhere(guests.id.length, (row) => {
        const code = codes[row] ?? null;
        if (code === null || (chosen !== null && code !== chosen)) return false;
        return searched === "" || (guests.id[row] ?? "").toLowerCase().includes(searched);
      }),
    [codes, guests.id, chosen, searched],
  );
  const columns = useMemo<Column[]>(
    () => [
      { key: "id", title: "Guest", track: "minmax(7rem, 1fr)", value: (row) => guests.id[row] ?? "", cell: (row) => <GuestLink id={guests.id[row] ?? null} /> },
      { key: "node", title: "Node", track: "minmax(6rem, 1fr)", value: (row) => nodeOf(guests, nodes, row), cell: (row) => <NodeLink id={nodeOf(guests, nodes, row)} /> },
      { key: "code", title: "Reason", track: "minmax(9rem, 1.2fr)", value: (row) => codes[row] ?? "", cell: (row) => words(codes[row] ?? "") },
      { key: "change", title: "What would have to change", track: "minmax(12rem, 3fr)", wide: true, cell: (row) => changes.get(codes[row] ?? "") ?? "" },
    ],
    [guests, nodes, changes, codes],
  );
  return (
    <Panel
      title="Guests by reason, nodes that receive none"
      actions={<Search label="Find a guest" value={route.value.query.get("q") ?? ""} onChange={(value) => setParameter("q", value)} />}
    >
      {reasons === undefined ? (
        <Pending error={found.error} reload={found.reload} what="reasons" />
      ) : (
        <>
          <ul class="codes">
            {reasons.map((reason) => (
              <Reason key={`${reason.code} ${reason.detail}`} reason={reason} chosen={chosen} />
            ))}
          </ul>
          <p class="muted more">
            {count(rows.length, "guest")}
            {chosen ? ` (${words(chosen)})` : ""}. Open a guest for its full explanation.
          </p>
          <VirtualTable label="Guests by reason" noun="guest" columns={columns} rows={rows} initial="id" empty="The last decision gives no reason for single guests." />
        </>
      )}
    </Panel>
  );
}

function Reason(props: { reason: ReasonList["reasons"][number]; chosen: string | null }): JSX.Element {
  const { code, detail, change, guests, nodes } = props.reason;
  const parts = [guests.length > 0 ? count(guests.length, "guest") : "", nodes.length > 0 ? count(nodes.length, "node") : ""];
  return (
    <li>
      <button type="button" aria-pressed={props.chosen === code} onClick={() => setParameter("code", props.chosen === code ? null : code)}>
        <strong>{parts.filter(Boolean).join(", ")}</strong> {words(code)}
      </button>
      <span class="muted">{withDurations(detail)}</span>
      {change ? <span class="muted">To change it: {change}</span> : null}
      {nodes.length > 0 ? (
        <span>
          {nodes.slice(0, 8).map((id, index) => (
            <span key={id}>
              {index > 0 ? ", " : ""}
              <NodeLink id={id} />
            </span>
          ))}
          {nodes.length > 8 ? `, and ${nodes.length - 8} more` : ""}
        </span>
      ) : null}
    </li>
  );
}
