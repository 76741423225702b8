/** Forms of questions that the server computes as jobs, with the answer. */

import type { ComponentChildren, JSX } from "preact";
import { useJob } from "../live/job";
import { Answer } from "./answer";
import { ErrorNote, StateBadge } from "./parts";

export function JobRunner(props: {
  kind: string;
  request: Record<string, unknown>;
  action: string;
  children?: ComponentChildren;
}): JSX.Element {
  const { job, error, busy, start } = useJob();
  return (
    <>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          start({ kind: props.kind, ...props.request });
        }}
      >
        {props.children}
        <div class="toolbar">
          <button type="submit" class="button primary" disabled={busy}>
            {props.action}
          </button>
          {busy ? <span class="muted">{job?.progress || "computing …"}</span> : null}
        </div>
      </form>
      {error !== null ? <ErrorNote text={error} /> : null}
      {job !== null && job.state === "failed" ? <ErrorNote text={job.detail || "The job failed."} /> : null}
      {job !== null && job.state === "cancelled" ? <p class="sentence"><StateBadge state="cancelled" /></p> : null}
      {job !== null && job.state === "done" ? <Answer kind={props.kind} result={job.result} /> : null}
    </>
  );
}
