/** Dialog that confirms an action of the operator; the browser traps the focus in it. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { sentence } from "../api/client";
import { ErrorNote } from "./parts";

export function Confirm(props: {
  title: string;
  action: string;
  danger?: boolean;
  reason?: "optional" | "required";
  children?: ComponentChildren;
  onConfirm: (because: string) => Promise<void>;
  onClose: () => void;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [because, setBecause] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const shown = dialog.current;
    const before = document.activeElement;
    shown?.showModal();
    return () => {
      shown?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await props.onConfirm(because.trim());
      props.onClose();
    } catch (problem) {
      setError(sentence(problem));
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="dialog-title" onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="dialog-title">{props.title}</h2>
        {props.children}
        {props.reason ? (
          <label class="field">
            <span>Reason{props.reason === "optional" ? " (optional)" : ""}</span>
            <input
              class="input"
              name="because"
              maxLength={200}
              required={props.reason === "required"}
              value={because}
              onInput={(event) => setBecause(event.currentTarget.value)}
            />
          </label>
        ) : null}
        {error !== null ? <ErrorNote text={error} /> : null}
        <div class="dialog-actions">
          <button type="button" class="button" onClick={props.onClose}>
            Back
          </button>
          <button type="submit" class={`button ${props.danger ? "danger" : "primary"}`} disabled={busy}>
            {props.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
