/** Why nothing, and why not this guest: reasons to guests, and to all that stay. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get, query } from "../api/client";
import type { Explanation, GuestColumns } from "../api/types";
import { STAY_CODES } from "../codes";
import { nodeOf } from "../cluster";
import { Badge, Empty, GuestLink, Heading, NodeLink, Panel, Pending, Search } from "../components/parts";
import { rowsWhere, VirtualTable, type Column } from "../components/table";
import { count, dateTime, words } from "../format";
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
        <Badge>{words(cycle.reason)}</Badge> {props.state.nothing?.sentence ?? cycle.detail}
      </p>
      {found.error !== null ? <Pending error={found.error} reload={found.reload} what="" /> : null}
      {found.value ? (
        <ul class="details">
          {found.value.details.map((line, index) => (
            <li key={index}>{line}</li>
          ))}
        </ul>
      ) : null}
    </Panel>
  );
}

function countsOf(guests: GuestColumns): [string, number][] {
  const counts = new Map<string, number>();
  for (const code of guests.stays) if (code !== null) counts.set(code, (counts.get(code) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function Stays(props: { state: State }): JSX.Element {
  const { guests, nodes } = props.state;
  const counts = useMemo(() => countsOf(guests), [guests.stays]);
  const chosen = route.value.query.get("code");
  const searched = (route.value.query.get("q") ?? "").toLowerCase();
  const rows = useMemo(
    () =>
      rowsWhere(guests.id.length, (row) => {
        const code = guests.stays[row] ?? null;
        if (code === null || (chosen !== null && code !== chosen)) return false;
        return searched === "" || (guests.id[row] ?? "").toLowerCase().includes(searched);
      }),
    [guests.stays, guests.id, chosen, searched],
  );
  const columns = useMemo<Column[]>(
    () => [
      { key: "id", title: "Guest", track: "minmax(7rem, 1fr)", value: (row) => guests.id[row] ?? "", cell: (row) => <GuestLink id={guests.id[row] ?? null} /> },
      { key: "node", title: "Node", track: "minmax(6rem, 1fr)", value: (row) => nodeOf(guests, nodes, row), cell: (row) => <NodeLink id={nodeOf(guests, nodes, row)} /> },
      { key: "code", title: "Reason", track: "minmax(9rem, 1.2fr)", value: (row) => guests.stays[row] ?? "", cell: (row) => words(guests.stays[row] ?? "") },
      { key: "change", title: "What would have to change", track: "minmax(12rem, 3fr)", wide: true, cell: (row) => STAY_CODES[guests.stays[row] ?? ""]?.change ?? "" },
    ],
    [guests, nodes],
  );
  return (
    <Panel
      title="Guests that stay"
      actions={<Search label="Find a guest" value={route.value.query.get("q") ?? ""} onChange={(value) => setParameter("q", value)} />}
    >
      {counts.length === 0 ? (
        <Empty>The last decision gives no reason for single guests.</Empty>
      ) : (
        <>
          <ul class="codes">
            {counts.map(([code, number]) => (
              <li key={code}>
                <button type="button" aria-pressed={chosen === code} onClick={() => setParameter("code", chosen === code ? null : code)}>
                  <strong>{number.toLocaleString("en")}</strong> {words(code)}
                </button>
                <span class="muted">{STAY_CODES[code]?.text}</span>
              </li>
            ))}
          </ul>
          <p class="muted more">{count(rows.length, "guest")}{chosen ? ` with ${words(chosen)}` : ""}; open a guest for its full explanation.</p>
          <VirtualTable label="Guests that stay" noun="guest" columns={columns} rows={rows} initial="id" />
        </>
      )}
    </Panel>
  );
}
