/** Changes for screen readers: one polite live region, at most one text in two seconds. */

import { effect, signal } from "@preact/signals";
import { connection, controllerHealth, state } from "./state";

const PAUSE = 2_000;

export const announcement = signal("");

let waiting: string[] = [];
let timer = 0;

export function announce(text: string): void {
  waiting = [...waiting.filter((each) => each !== text), text].slice(-3);
  if (timer === 0) timer = window.setTimeout(publish, 100);
}

function publish(): void {
  announcement.value = waiting.join(". ");
  waiting = [];
  timer = window.setTimeout(() => {
    timer = 0;
    if (waiting.length > 0) publish();
  }, PAUSE);
}

/** Announce changes of the connection, the mode, the plan and the controller. */
export function announceChanges(): void {
  let before: string[] = [];
  effect(() => {
    const shown = state.value;
    if (shown === null) return;
    const plan = shown.plan;
    const now = [
      connection.value === "lost" ? "Connection lost" : "",
      controllerHealth.value === "running" ? "" : `Controller ${controllerHealth.value}`,
      `Mode ${shown.mode.mode}`,
      plan ? `Plan ${plan.id} ${plan.state}, ${plan.step_count} steps` : "No plan",
      `${shown.exceptions.length} exceptions`,
    ];
    if (before.length > 0) {
      now.filter((text, index) => text !== "" && text !== before[index]).forEach(announce);
    }
    before = now;
  });
}
