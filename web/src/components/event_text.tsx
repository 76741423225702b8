/** Text of a log event, with a link in place of a command for the terminal. */

import type { JSX } from "preact";
import type { LogEvent } from "../api/types";
import { withDurations } from "../format";
import { href } from "../router";

const COMMAND = /\bopendrs [a-z]/;

function plain(message: string): string {
  const parts = message.split("; ");
  return parts.filter((part, index) => index === 0 || !COMMAND.test(part)).join("; ");
}

function link(event: LogEvent): JSX.Element | null {
  const { plan } = event.facts;
  if (typeof plan === "string") return <a href={href("plans", plan)}>See plan {plan}</a>;
  return COMMAND.test(event.message) ? <a href={href("control")}>See Control</a> : null;
}

export function EventText(props: { event: LogEvent }): JSX.Element {
  const { event } = props;
  return (
    <span class={`level-${event.level.toLowerCase()}`}>
      {withDurations(plain(event.message))} {link(event)}
    </span>
  );
}
