/** Age of the loads on the screen: while a plan runs, none are observed. */

import type { JSX } from "preact";
import { duration } from "../format";
import { observedAge, state } from "../live/state";
import { href } from "../router";

const OLD_INTERVALS = 2;

export function Observed(): JSX.Element | null {
  const shown = state.value;
  const age = observedAge.value;
  if (shown === null || age === null) return null;
  const { interval } = shown.controller;
  const running = shown.plan?.state === "running" ? shown.plan : null;
  const old = interval !== null && age > OLD_INTERVALS * interval;
  return (
    <span class={`observed ${old || running ? "observed-old" : "muted"}`}>
      observed {duration(age)} ago
      {running ? <>; plan <a href={href("plans", running.id)}>{running.id}</a> is running, loads are observed again after it</> : null}
    </span>
  );
}
