/** Failures that the limits want tolerated: do the guests restart after each of them. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { RuleList } from "../api/types";
import { count, dateTime } from "../format";
import { useJob } from "../live/job";
import { Badge, ErrorNote, GuestLink, NodeLink, Panel } from "./parts";

const SHOWN_FAILURES = 10;
const SHOWN_NAMES = 12;

interface Result {
  observed_at: string | null;
  required_tolerance: {
    evaluated: number;
    is_complete: boolean;
    intolerated: { name: string; nodes: string[]; unplaced: string[] }[];
  } | null;
}

/** Show the constraint of the limits, whether it holds, and the worst failures. */
export function RequiredTolerance(props: { rules: RuleList }): JSX.Element | null {
  const { tolerated_failures: nodes, tolerated_domain: domain, run } = props.rules;
  const { job, error, busy, start } = useJob();
  const wanted = (nodes > 0 || domain !== null) && run !== null;
  useEffect(() => {
    if (wanted) start({ kind: "what-if" });
  }, [wanted]);
  if (!wanted) return null;
  const result = job?.state === "done" ? (job.result as Result | null) : null;
  const failure = error ?? (job?.state === "failed" ? job.detail || "The job failed." : null);
  return (
    <Panel title="Failures to tolerate" actions={<button type="button" class="button" disabled={busy} onClick={() => start({ kind: "what-if" })}>Check again</button>}>
      <p class="sentence">
        The limits require: if {constraint(nodes, domain)}, all guests restart on the other nodes by the rules (<code>limits.tolerated_failures</code>, <code>limits.tolerated_domain</code>).
      </p>
      {busy ? <p class="sentence muted">computing …</p> : null}
      {failure !== null ? <ErrorNote text={failure} /> : null}
      {result?.required_tolerance ? <Outcome {...result} required={result.required_tolerance} /> : null}
    </Panel>
  );
}

function Outcome(props: { observed_at: string | null; required: NonNullable<Result["required_tolerance"]> }): JSX.Element {
  const { evaluated, is_complete, intolerated } = props.required;
  const holds = intolerated.length === 0;
  return (
    <>
      <p class="sentence">
        <Badge tone={holds ? "ok" : "error"}>{holds ? "tolerated" : "not tolerated"}</Badge>{" "}
        {holds ? `Each of ${count(evaluated, "failure")} is tolerated` : `${intolerated.length} of ${count(evaluated, "failure")} ${intolerated.length === 1 ? "is" : "are"} not tolerated`} in the cluster observed {dateTime(props.observed_at)}.
        {is_complete ? "" : " Not every set of nodes was evaluated: the cluster is too large."}
      </p>
      {intolerated.slice(0, SHOWN_FAILURES).map((each) => (
        <p class="sentence" key={each.name}>
          <strong>Failure of {each.nodes.length === 1 ? <NodeLink id={each.name} /> : each.name}:</strong> no node for {count(each.unplaced.length, "guest")}:{" "}
          {each.unplaced.slice(0, SHOWN_NAMES).map((id, index) => <span key={id}>{index > 0 ? ", " : ""}<GuestLink id={id} /></span>)}
          {each.unplaced.length > SHOWN_NAMES ? " …" : ""}
        </p>
      ))}
      {intolerated.length > SHOWN_FAILURES ? <p class="sentence muted">and {intolerated.length - SHOWN_FAILURES} more</p> : null}
    </>
  );
}

/** Return which nodes fail, in words. */
function constraint(nodes: number, domain: string | null): string {
  const failing = [
    nodes > 0 ? `any ${nodes === 1 ? "node fails" : `${nodes} nodes fail`}` : "",
    domain !== null ? `all nodes of any one ${domain} fail` : "",
  ];
  return failing.filter(Boolean).join(", or ");
}
