/** A job of the server: started, and followed to its end. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, remove, sentence } from "../api/client";
import type { Job } from "../api/types";
import { announce } from "./announce";

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
    follow(request, abort.signal, (job) => setRunning({ job, error: null, busy: isOpen(job) })).catch((error: unknown) => {
      if (!abort.signal.aborted) setRunning({ job: null, error: sentence(error), busy: false });
    });
  };
  return { ...running, start };
}

/** Return true if a job waits or runs. */
export function isOpen(job: { state: string }): boolean {
  return job.state === "queued" || job.state === "running";
}

async function follow(
  request: Record<string, unknown>,
  abort: AbortSignal,
  changed: (job: Job) => void,
): Promise<void> {
  let job = await post<Job>("/jobs", request, abort);
  abort.addEventListener("abort", () => {
    if (isOpen(job)) void remove(`/jobs/${encodeURIComponent(job.id)}`).catch(() => undefined);
  });
  for (let wait = FIRST_WAIT; ; wait = Math.min(LONGEST_WAIT, wait * 1.5)) {
    changed(job);
    if (!isOpen(job)) break;
    await new Promise((resolve) => window.setTimeout(resolve, wait));
    if (abort.aborted) return;
    job = await get<Job>(`/jobs/${encodeURIComponent(job.id)}`, abort);
  }
  announce(`Answer ${job.state}`);
}
