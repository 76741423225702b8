/** Questions that the server computes as jobs: start one, follow it, show its answer. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, remove, sentence } from "../api/client";
import type { Job } from "../api/types";
import { announce } from "../live/announce";
import { Answer } from "./answer";
import { ErrorNote, StateBadge } from "./parts";

const FIRST_WAIT = 250;
const LONGEST_WAIT = 2_000;

interface Running {
  job: Job | null;
  error: string | null;
  busy: boolean;
}

/** Start a job and follow it to its end; a new start ends the former one. */
export function useJob(): Running & { start: (request: Record<string, unknown>) => void } {
  const [running, setRunning] = useState<Running>({ job: null, error: null, busy: false });
  const current = useRef<AbortController | null>(null);
  useEffect(() => () => current.current?.abort(), []);
  const start = (request: Record<string, unknown>): void => {
    current.current?.abort();
    const abort = new AbortController();
    current.current = abort;
    setRunning({ job: null, error: null, busy: true });
    follow(request, abort.signal, (job) => setRunning({ job, error: null, busy: !ended(job) })).catch((error: unknown) => {
      if (!abort.signal.aborted) setRunning({ job: null, error: sentence(error), busy: false });
    });
  };
  return { ...running, start };
}

function ended(job: Job): boolean {
  return job.state !== "queued" && job.state !== "running";
}

async function follow(
  request: Record<string, unknown>,
  abort: AbortSignal,
  changed: (job: Job) => void,
): Promise<void> {
  let job = await post<Job>("/jobs", request, abort);
  abort.addEventListener("abort", () => {
    if (!ended(job)) void remove(`/jobs/${encodeURIComponent(job.id)}`).catch(() => undefined);
  });
  for (let wait = FIRST_WAIT; ; wait = Math.min(LONGEST_WAIT, wait * 1.5)) {
    changed(job);
    if (ended(job)) break;
    await new Promise((resolve) => window.setTimeout(resolve, wait));
    if (abort.aborted) return;
    job = await get<Job>(`/jobs/${encodeURIComponent(job.id)}`, abort);
  }
  announce(`Answer ${job.state}`);
}

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
