/** Moves of a period: in one sentence, and one by one. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, query } from "../api/client";
import type { Move, MoveList } from "../api/types";
import { MoveTable } from "../components/detail_panels";
import { Panel, Pending, Select } from "../components/parts";
import { count, dateTime, words } from "../format";
import { useDocument } from "../live/loader";
import { state } from "../live/state";
import { route, setParameter } from "../router";

const HOUR = 3_600_000;
const LIMIT = 100;
const PERIODS: readonly (readonly [string, string, number | null])[] = [
  ["12h", "Last 12 hours", 12 * HOUR],
  ["24h", "Last 24 hours", 24 * HOUR],
  ["7d", "Last 7 days", 7 * 24 * HOUR],
  ["all", "All", null],
];
const DEFAULT = "24h";

interface Found {
  moves: Move[];
  since: string | null;
  more: boolean;
}

async function load(length: number | null, pages: number, abort: AbortSignal): Promise<Found> {
  const since = length === null ? null : new Date(Date.now() - length).toISOString();
  const moves: Move[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pages; page += 1) {
    const found: MoveList = await get<MoveList>(`/history/moves${query({ since, limit: LIMIT, cursor })}`, abort);
    moves.push(...found.moves);
    cursor = found.next;
    if (cursor === null) break;
  }
  return { moves, since, more: cursor !== null };
}

export function Moves(): JSX.Element {
  const run = state.value?.controller.last_cycle?.run;
  const asked = route.value.query.get("period");
  const [period, , length] = PERIODS.find(([name]) => name === asked) ?? PERIODS.find(([name]) => name === DEFAULT)!;
  const [pages, setPages] = useState(1);
  const found = useDocument<Found>(`moves ${period}`, (abort) => load(length, pages, abort), `${run} ${pages}`);
  const shown = found.value;
  const choose = (name: string): void => {
    setPages(1);
    setParameter("period", name === DEFAULT ? null : name);
  };
  return (
    <Panel
      title="Moves, the newest first"
      actions={<Select label="Period" value={period} options={PERIODS.map(([name, text]) => [name, text] as const)} onChange={choose} />}
    >
      {shown === null ? (
        <Pending error={found.error} reload={found.reload} what="moves" />
      ) : (
        <>
          <p class="sentence">{summary(shown)}</p>
          {shown.moves.length > 0 ? <MoveTable moves={shown.moves} /> : null}
          {shown.more ? (
            <button type="button" class="button more" onClick={() => setPages(pages + 1)}>
              Show older moves
            </button>
          ) : null}
        </>
      )}
    </Panel>
  );
}

/** Return the number of moves by outcome, and of the plans that they belong to. */
function summary(found: Found): string {
  const { moves, since, more } = found;
  const begin = more ? moves.at(-1)?.intended_at : since;
  const period = begin ? `Since ${dateTime(begin)}` : "Since the first record";
  if (moves.length === 0) return `${period}: no guest was moved.`;
  const outcomes = new Map<string, number>();
  for (const move of moves) {
    const outcome = move.outcome ?? "running";
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  }
  const parts = [...outcomes].map(([outcome, number]) => `${number} ${words(outcome)}`);
  const plans = new Set(moves.map((move) => move.plan?.id ?? move.run)).size;
  return `${period}: ${count(moves.length, "move")} of ${count(plans, "plan")}, ${parts.join(", ")}.`;
}
