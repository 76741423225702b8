/** What the controller may do: mode, pause, circuit breakers, drains. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, put, remove, session } from "../api/client";
import type { DrainList, Mode } from "../api/types";
import { Confirm } from "../components/dialog";
import { Badge, Empty, Heading, NodeLink, Panel, Pending } from "../components/parts";
import { dateTime, words } from "../format";
import { useDocument } from "../live/loader";
import type { State } from "../live/delta";
import { refresh, state } from "../live/state";

const MODES: readonly (readonly [Mode, string])[] = [
  ["observe", "Records plans and executes none."],
  ["advise", "Proposes plans; an operator approves or rejects each."],
  ["automatic", "Executes plans."],
];
const PAUSES: readonly (readonly [number, string])[] = [
  [900, "15 minutes"],
  [3600, "1 hour"],
  [4 * 3600, "4 hours"],
  [24 * 3600, "1 day"],
];

export function Control(): JSX.Element {
  const shown = state.value;
  if (shown === null) return <Empty>Loading the state of the cluster …</Empty>;
  return (
    <>
      <Heading title="Control" text="What the controller may do. Each change is recorded in the audit." />
      <div class="columns">
        <ModePanel state={shown} />
        <div class="stack">
          <PausePanel state={shown} />
          <BreakerPanel state={shown} />
        </div>
      </div>
      <Drains />
    </>
  );
}

function mayWrite(): boolean {
  return session.value?.role !== "viewer";
}

async function afterChange(change: Promise<unknown>): Promise<void> {
  await change;
  await refresh().catch(() => undefined);
}

function ModePanel(props: { state: State }): JSX.Element {
  const { mode } = props.state;
  const [chosen, setChosen] = useState<Mode | null>(null);
  return (
    <Panel title="Mode">
      <ul class="list">
        {MODES.map(([name, text]) => (
          <li key={name} class="option">
            <span>
              <strong>{words(name)}</strong> {mode.mode === name ? <Badge tone="accent">applies now</Badge> : null}{" "}
              {mode.configured === name ? <Badge>configured</Badge> : null}
              <span class="detail">{text}</span>
            </span>
            {mayWrite() && mode.mode !== name ? (
              <button type="button" class="button" onClick={() => setChosen(name)}>
                Set {name}
              </button>
            ) : null}
          </li>
        ))}
      </ul>
      <p class="more muted">{mode.detail || `Source: ${words(mode.source)}`}</p>
      {chosen !== null ? (
        <Confirm
          title={`Set the mode ${chosen}?`}
          action={`Set ${chosen}`}
          danger={chosen === "automatic"}
          onConfirm={() => afterChange(put("/mode", { mode: chosen }))}
          onClose={() => setChosen(null)}
        >
          <p class="muted">{MODES.find(([name]) => name === chosen)?.[1]}</p>
        </Confirm>
      ) : null}
    </Panel>
  );
}

function PausePanel(props: { state: State }): JSX.Element {
  const { pause } = props.state;
  const [open, setOpen] = useState(false);
  const [seconds, setSeconds] = useState(3600);
  return (
    <Panel
      title="Pause"
      actions={
        mayWrite() ? (
          pause ? (
            <button type="button" class="button" onClick={() => void afterChange(remove("/pause"))}>
              End the pause
            </button>
          ) : (
            <button type="button" class="button" onClick={() => setOpen(true)}>
              Pause
            </button>
          )
        ) : undefined
      }
    >
      {pause ? (
        <p class="sentence">
          Until {dateTime(pause.until)} by {pause.user}: {pause.because}
        </p>
      ) : (
        <Empty>Not paused.</Empty>
      )}
      {open ? (
        <Confirm
          title="Pause the controller?"
          action="Pause"
          reason="required"
          onConfirm={(because) => afterChange(put("/pause", { seconds, because }))}
          onClose={() => setOpen(false)}
        >
          <p class="muted">It goes on observing, and starts nothing until the pause ends.</p>
          <label class="field">
            <span>For</span>
            <select class="input" value={seconds} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
              {PAUSES.map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
        </Confirm>
      ) : null}
    </Panel>
  );
}

function BreakerPanel(props: { state: State }): JSX.Element {
  const { breaker, api_breaker } = props.state;
  const [open, setOpen] = useState(false);
  return (
    <Panel
      title="Circuit breakers"
      actions={
        mayWrite() && (breaker || api_breaker) ? (
          <button type="button" class="button" onClick={() => setOpen(true)}>
            Close
          </button>
        ) : undefined
      }
    >
      {breaker ? <p class="sentence"><Badge tone="error">open</Badge> {breaker.detail}</p> : null}
      {api_breaker ? <p class="sentence"><Badge tone="error">API open</Badge> {api_breaker.detail}</p> : null}
      {breaker || api_breaker ? null : <Empty>Closed.</Empty>}
      {open ? (
        <Confirm
          title="Close the circuit breaker?"
          action="Close it"
          reason="required"
          onConfirm={(because) => afterChange(remove("/breaker", { because }))}
          onClose={() => setOpen(false)}
        />
      ) : null}
    </Panel>
  );
}

function Drains(): JSX.Element {
  const drained = state.value?.nodes.drained.filter(Boolean).length ?? 0;
  const found = useDocument<DrainList>("drains", (abort) => get("/drains", abort), drained);
  return (
    <Panel title="Drained nodes">
      {found.value === null ? (
        <Pending error={found.error} reload={found.reload} what="drains" />
      ) : found.value.drains.length === 0 ? (
        <Empty>No node is drained. Open a node to drain it.</Empty>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Since</th>
              <th scope="col">By</th>
              <th scope="col">Reason</th>
            </tr>
          </thead>
          <tbody>
            {found.value.drains.map((each) => (
              <tr key={each.node}>
                <th scope="row"><NodeLink id={each.node} /></th>
                <td class="nowrap">{dateTime(each.since)}</td>
                <td>{each.user}</td>
                <td>{each.because}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
