/** All recorded plans, the newest first. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get, query } from "../api/client";
import type { PlanList, PlanSummary } from "../api/types";
import { Heading, Pending, Select } from "../components/parts";
import { PlanBadge } from "../components/plan_state";
import { rowsWhere, VirtualTable, type Column } from "../components/table";
import { dateTime, words } from "../format";
import { useDocument } from "../live/loader";
import { planChanges } from "../live/state";
import { href, route, setParameter } from "../router";

const STATES = ["proposed", "approved", "running", "done", "failed", "cancelled", "rejected", "expired", "superseded"];

function planColumns(plans: readonly PlanSummary[]): Column[] {
  return [
    { key: "id", title: "Plan", track: "5.5rem", cell: (row) => <a href={href("plans", plans[row]?.id ?? "")}>{plans[row]?.id}</a> },
    { key: "state", title: "State", track: "minmax(8rem, 1.4fr)", value: (row) => plans[row]?.state ?? "", cell: (row) => stateCell(plans[row]) },
    { key: "created", title: "Created", track: "11rem", value: (row) => plans[row]?.created_at ?? "", cell: (row) => dateTime(plans[row]?.created_at) },
    { key: "steps", title: "Steps", track: "4.5rem", numeric: true, value: (row) => plans[row]?.step_count ?? 0, cell: (row) => plans[row]?.step_count },
    { key: "policy", title: "Policy", track: "9rem", wide: true, value: (row) => plans[row]?.policy ?? "", cell: (row) => plans[row]?.policy },
    { key: "reason", title: "Reason", track: "11rem", wide: true, value: (row) => plans[row]?.reason ?? "", cell: (row) => words(plans[row]?.reason ?? "") },
    { key: "detail", title: "Detail", track: "minmax(12rem, 3fr)", wide: true, cell: (row) => <span title={plans[row]?.reason_detail}>{plans[row]?.reason_detail}</span> },
  ];
}

function stateCell(plan: PlanSummary | undefined): JSX.Element | null {
  return plan === undefined ? null : <PlanBadge plan={plan} />;
}

export function Plans(): JSX.Element {
  const chosen = route.value.query.get("state") ?? "";
  const found = useDocument<PlanList>(`plans ${chosen}`, (abort) => get(`/plans${query({ state: chosen, limit: 200 })}`, abort), planChanges.value);
  const items = found.value?.plans;
  const columns = useMemo(() => planColumns(items ?? []), [items]);
  const rows = useMemo(() => rowsWhere(items?.length ?? 0, () => true), [items]);
  return (
    <>
      <Heading title="Plans" text="Proposed by the controller; executed after an approval, or by the mode automatic.">
        <Select
          label="State"
          value={chosen}
          options={[["", "All states"], ...STATES.map((state) => [state, words(state)] as const)]}
          onChange={(value) => setParameter("state", value)}
        />
      </Heading>
      {found.value === null ? (
        <Pending error={found.error} reload={found.reload} what="plans" />
      ) : (
        <VirtualTable label="Plans" noun="plan" columns={columns} rows={rows} initial="-created" empty="No plan is recorded in this state." />
      )}
    </>
  );
}
