/** Rules: what they bind, their state and origin, contradictions, and repairs. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { RuleDocument, RuleList } from "../api/types";
import { GuestLink, Heading, NodeLink, Panel, Pending, Search, Select, StateBadge } from "../components/parts";
import { RequiredTolerance } from "../components/tolerance";
import { rowsWhere, VirtualTable, type Column } from "../components/table";
import { count, words } from "../format";
import { useDocument } from "../live/loader";
import { state } from "../live/state";
import { route, setParameter } from "../router";

const LISTED = 200;

function ruleColumns(rules: readonly RuleDocument[]): Column[] {
  return [
    {
      key: "rule",
      title: "Rule",
      track: "minmax(8rem, 1.5fr)",
      value: (row) => rules[row]?.rule ?? "",
      cell: (row) => <RuleLink rule={rules[row]?.rule ?? ""} />,
    },
    { key: "state", title: "State", track: "8rem", value: (row) => rules[row]?.state ?? "", cell: (row) => <StateBadge state={rules[row]?.state ?? ""} /> },
    { key: "kind", title: "Kind", track: "9rem", value: (row) => rules[row]?.kind ?? "", cell: (row) => words(rules[row]?.kind ?? "") },
    { key: "strict", title: "Holds", track: "6rem", wide: true, value: (row) => (rules[row]?.strict ? "strict" : "soft"), cell: (row) => (rules[row]?.strict ? "strict" : "soft") },
    { key: "guests", title: "Guests", track: "5rem", numeric: true, wide: true, value: (row) => rules[row]?.guests.length ?? 0, cell: (row) => rules[row]?.guests.length },
    { key: "nodes", title: "Nodes", track: "5rem", numeric: true, wide: true, value: (row) => rules[row]?.nodes.length ?? 0, cell: (row) => rules[row]?.nodes.length || "" },
    { key: "origin", title: "Origin", track: "minmax(6rem, 1fr)", wide: true, value: (row) => rules[row]?.origin ?? null, cell: (row) => originText(rules[row]?.origin ?? "") },
    { key: "detail", title: "Detail", track: "minmax(10rem, 2fr)", wide: true, cell: (row) => <span title={rules[row]?.detail}>{rules[row]?.detail}</span> },
  ];
}

function RuleLink(props: { rule: string }): JSX.Element {
  const parameters = new URLSearchParams(route.value.query);
  parameters.set("rule", props.rule);
  return <a href={`#/rules?${parameters.toString()}`}>{props.rule}</a>;
}

export function Rules(): JSX.Element {
  const run = state.value?.controller.last_cycle?.run;
  const found = useDocument<RuleList>("rules", (abort) => get("/rules", abort), run);
  const { query } = route.value;
  const searched = (query.get("q") ?? "").toLowerCase();
  const chosen = query.get("state") ?? "";
  const rules = found.value?.rules;
  const columns = useMemo(() => ruleColumns(rules ?? []), [rules]);
  const rows = useMemo(
    () =>
      rowsWhere(rules?.length ?? 0, (row) => {
        const rule = rules?.[row];
        if (!rule || (chosen !== "" && rule.state !== chosen)) return false;
        return searched === "" || `${rule.rule} ${rule.kind} ${rule.guests.join(" ")} ${rule.nodes.join(" ")}`.toLowerCase().includes(searched);
      }),
    [rules, searched, chosen],
  );
  const open = rules?.find((rule) => rule.rule === query.get("rule"));
  const states = [...new Set(rules?.map((rule) => rule.state) ?? [])].sort();
  return (
    <>
      <Heading title="Rules" text={rules ? `${rows.length} of ${count(rules.length, "rule")}` : ""}>
        <Search label="Find a rule, guest or node" value={query.get("q") ?? ""} onChange={(value) => setParameter("q", value)} />
        <Select label="State" value={chosen} options={[["", "All states"], ...states.map((each) => [each, words(each)] as const)]} onChange={(value) => setParameter("state", value)} />
      </Heading>
      {open ? <OpenRule rule={open} /> : null}
      {found.value === null ? (
        <Pending error={found.error} reload={found.reload} what="rules" />
      ) : (
        <>
          <RequiredTolerance rules={found.value} />
          <VirtualTable label="Rules" noun="rule" columns={columns} rows={rows} initial="-state" empty="No rule is defined." />
        </>
      )}
    </>
  );
}

function OpenRule(props: { rule: RuleDocument }): JSX.Element {
  const { rule } = props;
  return (
    <Panel title={rule.rule} actions={<button type="button" class="button" onClick={() => setParameter("rule", null)}>Close</button>}>
      <p class="sentence">
        <StateBadge state={rule.state} /> {words(rule.kind)}, {rule.strict ? "strict" : "soft"}
        {rule.origin ? `, from ${originText(rule.origin)}` : ""}. {rule.detail}
      </p>
      {rule.repair ? <p class="sentence"><strong>Repair:</strong> {rule.repair}</p> : null}
      <p class="sentence">
        <strong>Guests:</strong> {rule.guests.slice(0, LISTED).map((id, index) => <span key={id}>{index > 0 ? ", " : ""}<GuestLink id={id} /></span>)}
      </p>
      {rule.nodes.length > 0 ? (
        <p class="sentence">
          <strong>Nodes:</strong> {rule.nodes.slice(0, LISTED).map((id, index) => <span key={id}>{index > 0 ? ", " : ""}<NodeLink id={id} /></span>)}
        </p>
      ) : null}
    </Panel>
  );
}

/** Return the origin of a rule in words: some rules come from the controller itself. */
function originText(origin: string): string {
  return origin === "undo horizon" ? "a recent migration" : origin;
}
