/** Button that drains a node, or ends its drain, after a confirmation. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { put, remove, session } from "../api/client";
import type { Step } from "../api/types";
import { count, withDurations, words } from "../format";
import { useJob } from "../live/job";
import { state } from "../live/state";
import { Confirm } from "./dialog";

const SHOWN_GUESTS = 5;

/** The answer of a job of the kind `drain-preview`. */
export interface PreviewResult {
  node: string;
  steps: Pick<Step, "id" | "kind" | "guest" | "source" | "target" | "disk" | "detail">[];
  detail: string;
  targets: {
    node: string;
    guests: unknown;
    cpu_before: number | null;
    cpu_after: number | null;
    memory_before: number | null;
    memory_after: number | null;
  }[];
  remaining: { guest: string; reason: string; detail: string; remedy: string | null }[];
}

function drainText(): string {
  const mode = state.value?.mode.mode;
  const start =
    mode === "automatic" ? "in the next cycle" : mode === "advise" ? "after you have approved the plan of the next cycle" : "when the mode is advise or automatic";
  return `All guests that can migrate move to other nodes ${start}. The node receives no guests until you end the drain.`;
}

/** Return the guests that leave the node. */
export function leaversOf(result: PreviewResult): (string | null)[] {
  const { node, steps } = result;
  return [...new Set(steps.filter((step) => step.source === node).map((step) => step.guest))];
}

/** What a drain would do: as on the page, or computed when the dialog opens. */
function PreviewNote(props: { node: string; preview: PreviewResult | null }): JSX.Element {
  return props.preview === null ? <ComputedNote node={props.node} /> : <div class="note note-info"><PreviewSummary result={props.preview} /></div>;
}

function ComputedNote(props: { node: string }): JSX.Element {
  const { node } = props;
  const { job, error, busy, start } = useJob();
  useEffect(() => start({ kind: "drain-preview", node }), [node]);
  const text = error ?? (job?.state === "failed" ? job.detail || "The preview failed." : null);
  return (
    <div class="note note-info" role="status">
      {text !== null ? text : job?.state === "done" ? <PreviewSummary result={job.result as PreviewResult} /> : busy ? "Computing which guests can leave …" : "No preview."}
    </div>
  );
}

/** The numbers of guests that leave and stay, with the reasons, and the targets. */
function PreviewSummary(props: { result: PreviewResult }): JSX.Element {
  const { node, targets, remaining } = props.result;
  const moved = leaversOf(props.result).length;
  const total = moved + remaining.length;
  if (total === 0) return <span>No guest is on {node}.</span>;
  return (
    <>
      <span>
        <strong>{moved} of {count(total, "guest")} can leave</strong>
        {targets.length > 0 ? `, to ${count(targets.length, "node")}.` : "."}
      </span>
      {remaining.length > 0 ? (
        <ul class="preview-stay">
          {remaining.slice(0, SHOWN_GUESTS).map((each) => (
            <li key={each.guest}>{each.guest} cannot: {withDurations(each.detail || words(each.reason))}</li>
          ))}
          {remaining.length > SHOWN_GUESTS ? <li>and {remaining.length - SHOWN_GUESTS} more</li> : null}
        </ul>
      ) : null}
    </>
  );
}

export function DrainButton(props: {
  node: string;
  drained: boolean;
  /** What the drain would do, if the page shows it. */
  preview?: PreviewResult;
  onDone: () => void;
}): JSX.Element | null {
  const { node, drained } = props;
  const [open, setOpen] = useState(false);
  if (session.value?.role === "viewer") return null;
  const address = `/nodes/${encodeURIComponent(node)}/drain`;
  const perform = async (because: string): Promise<void> => {
    if (drained) await remove(address, {});
    else await put(address, because === "" ? {} : { because });
    props.onDone();
  };
  const action = drained ? "End the drain" : "Drain";
  const named = drained ? `End the drain of ${node}` : `Drain ${node}`;
  return (
    <>
      <button type="button" class={`button ${drained ? "" : "primary"}`} onClick={() => setOpen(true)}>
        {action}
      </button>
      {open ? (
        <Confirm
          title={`${named}?`}
          action={named}
          {...(drained ? {} : { reason: "optional" as const })}
          onConfirm={perform}
          onClose={() => setOpen(false)}
        >
          <p class="muted">{drained ? "The node may receive guests again." : drainText()}</p>
          {drained ? null : <PreviewNote node={node} preview={props.preview ?? null} />}
        </Confirm>
      ) : null}
    </>
  );
}
