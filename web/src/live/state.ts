/** The state of the cluster: fetched once, then kept current by server-sent events. */

import { batch, computed, signal } from "@preact/signals";
import { get, getIfChanged, Problem, query } from "../api/client";
import { readStream, type StreamEvent } from "../api/stream";
import type { EventList, LogEvent, Progress, StateDocument, StateMessage } from "../api/types";
import { clock, secondsSince } from "./clock";
import { applyMessage, stateFrom, type State } from "./delta";

export type Connection = "connecting" | "live" | "polling" | "lost";

const POLL = 5_000;
const LONGEST_WAIT = 10_000;
const KEPT_EVENTS = 200;

export const state = signal<State | null>(null);
export const connection = signal<Connection>("connecting");
/** Time of the monotonic clock in milliseconds. */
export const receivedAt = signal(0);
/** Progress of steps that are running, by run and step. */
export const progress = signal<ReadonlyMap<string, Progress>>(new Map());
/** The newest log events, the newest first. */
export const events = signal<readonly LogEvent[]>([]);
/** Counts changes of plans, for screens that show one. */
export const planChanges = signal(0);

/** Seconds since the state on the screen was received. */
export const dataAge = computed(() => Math.max(0, (clock.value - receivedAt.value) / 1_000));

/** Seconds since the end of the last cycle; null if there was none. */
export const cycleAge = computed(() => secondsSince(state.value?.controller.last_cycle?.ended_at));

/** Seconds since the loads on the screen were observed; null if they never were. */
export const observedAge = computed(() => secondsSince(state.value?.observed_at));

export type ControllerHealth = "running" | "late" | "stopped" | "unknown";

/** State of the controller, as far as it is known from the data on the screen. */
export const controllerHealth = computed<ControllerHealth>(() => {
  const controller = state.value?.controller;
  if (!controller) return "unknown";
  if (!controller.running) return "stopped";
  return controller.late ? "late" : "running";
});

let etag: string | null = null;
let lastId: string | null = null;
let stopped: AbortController | null = null;

function received(next: State | null): void {
  batch(() => {
    receivedAt.value = performance.now();
    clock.value = receivedAt.value;
    if (next !== null) state.value = next;
  });
}

/** Fetch the state again, if it has changed. */
export async function refresh(): Promise<void> {
  const found = await getIfChanged<StateDocument>("/state", etag);
  if (found !== null) etag = found.etag;
  received(found ? stateFrom(found.document) : null);
}

async function refreshEvents(): Promise<void> {
  const found = await get<EventList>(`/log${query({ limit: KEPT_EVENTS })}`);
  events.value = [...found.events].sort((a, b) => b.sequence - a.sequence);
}

function onEvent(event: StreamEvent): void {
  if (event.id !== null) lastId = event.id;
  switch (event.name) {
    case "state":
      onState(JSON.parse(event.data) as StateMessage);
      break;
    case "progress":
      onProgress(JSON.parse(event.data) as Progress[]);
      break;
    case "log":
      onLog(JSON.parse(event.data) as LogEvent);
      break;
    case "plan":
      planChanges.value += 1;
      void refresh().catch(ignore);
      break;
    case "reset":
      lastId = null;
      planChanges.value += 1;
      void Promise.all([refresh(), refreshEvents()]).catch(ignore);
      break;
    default:
      void refresh().catch(ignore);
  }
}

/** Return the key of a step in {@link progress}. */
export function progressKey(run: string, step: string): string {
  return `${run}/${step}`;
}

function onProgress(found: readonly Progress[]): void {
  progress.value = new Map(found.map((each) => [progressKey(each.run, each.step), each]));
}

function onState(message: StateMessage): void {
  const next = state.value === null ? null : applyMessage(state.value, message);
  if (next === null) void refresh().catch(ignore);
  else received(next);
}

function onLog(event: LogEvent): void {
  if (event.code.startsWith("step-") || event.code.startsWith("plan-")) planChanges.value += 1;
  const kept = events.value.filter((each) => each.sequence !== event.sequence);
  events.value = [event, ...kept].sort((a, b) => b.sequence - a.sequence).slice(0, KEPT_EVENTS);
}

function ignore(_error: unknown): void {
  // The connection loop reports it, and fetches the state again.
}

function pause(milliseconds: number, abort: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = window.setTimeout(resolve, milliseconds);
    const wakeUp = (): void => {
      window.clearTimeout(timer);
      resolve();
    };
    abort.addEventListener("abort", wakeUp, { once: true });
    window.addEventListener("online", wakeUp, { once: true });
  });
}

/** Connect, and connect again after a break, until {@link disconnect}. */
export async function connect(): Promise<void> {
  disconnect();
  const current = new AbortController();
  stopped = current;
  let failures = 0;
  while (!current.signal.aborted) {
    try {
      await refresh();
      void refreshEvents().catch(ignore);
      await readStream("/api/v1/events", lastId, {
        opened: () => {
          failures = 0;
          connection.value = "live";
        },
        event: onEvent,
      }, current.signal);
      connection.value = "connecting";
    } catch (error) {
      if (current.signal.aborted) return;
      if (error instanceof Problem && error.status === 401) {
        if (stopped === current) stopped = null;
        return;
      }
      failures += 1;
      connection.value = "lost";
      await poll(failures, current.signal);
    }
    if (failures === 0) await pause(300, current.signal);
  }
}

/** After a failure, fetch the state without events until the next attempt. */
async function poll(failures: number, abort: AbortSignal): Promise<void> {
  await pause(Math.min(LONGEST_WAIT, 500 * 2 ** Math.min(failures, 5)), abort);
  if (abort.aborted || failures < 3) return;
  try {
    await refresh();
    connection.value = "polling";
    await pause(POLL, abort);
  } catch (error) {
    ignore(error);
  }
}

/** Return true from {@link connect} until {@link disconnect}, or until there is no session. */
export function isConnecting(): boolean {
  return stopped !== null;
}

export function disconnect(): void {
  stopped?.abort();
  stopped = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && stopped !== null) void refresh().catch(ignore);
});
