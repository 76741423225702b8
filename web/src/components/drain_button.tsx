/** Button that drains a node, or ends its drain, after a confirmation. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { put, remove, session } from "../api/client";
import { state } from "../live/state";
import { Confirm } from "./dialog";

function drainText(): string {
  const mode = state.value?.mode.mode;
  const start =
    mode === "automatic" ? "in the next cycle" : mode === "advise" ? "after you have approved the plan of the next cycle" : "when the mode is advise or automatic";
  return `All guests that can migrate move to other nodes ${start}. The node receives no guests until you end the drain.`;
}

export function DrainButton(props: { node: string; drained: boolean; onDone: () => void }): JSX.Element | null {
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
  return (
    <>
      <button type="button" class={`button ${drained ? "" : "primary"}`} onClick={() => setOpen(true)}>
        {action}
      </button>
      {open ? (
        <Confirm
          title={drained ? `End the drain of ${node}?` : `Drain ${node}?`}
          action={action}
          {...(drained ? {} : { reason: "optional" as const })}
          onConfirm={perform}
          onClose={() => setOpen(false)}
        >
          <p class="muted">{drained ? "The node may receive guests again." : drainText()}</p>
        </Confirm>
      ) : null}
    </>
  );
}
