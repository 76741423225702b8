/** Time of the page and of the server. The clock of the browser may be wrong. */

import { computed, signal } from "@preact/signals";

/** Time of the monotonic clock in milliseconds, once a second. */
export const clock = signal(performance.now());

/** Time of the server less that of the monotonic clock; null until it has responded. */
const offset = signal<number | null>(null);

/** Half of the resolution of the header `Date`. */
const ROUNDING = 500;

/** Note the time in a response. */
export function noteDate(header: string | null): void {
  const time = header === null ? Number.NaN : Date.parse(header);
  if (!Number.isNaN(time)) offset.value = time + ROUNDING - performance.now();
}

/** Time of the server in milliseconds. */
const serverTime = computed(() => (offset.value === null ? Date.now() : clock.value + offset.value));

/** Return the seconds since a time of the server; null if it is not known. */
export function secondsSince(time: string | null | undefined): number | null {
  return time == null ? null : Math.max(0, (serverTime.value - Date.parse(time)) / 1_000);
}

/** Return the seconds until a time of the server; negative after it. */
export function secondsUntil(time: string): number {
  return (Date.parse(time) - serverTime.value) / 1_000;
}

window.setInterval(() => {
  clock.value = performance.now();
}, 1_000);
