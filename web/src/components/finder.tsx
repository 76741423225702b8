/** Search for a node or a guest from every screen; Ctrl+K leads to it. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { State } from "../live/delta";
import { state } from "../live/state";
import { href, navigate } from "../router";

const SUGGESTIONS = 10;
const APPLE = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** Return the ids that contain *text*: those that begin with it, then the others. */
function matching(ids: readonly string[], text: string, most: number): string[] {
  const first: string[] = [];
  const rest: string[] = [];
  for (const id of ids) {
    const position = id.toLowerCase().indexOf(text);
    if (position === 0) first.push(id);
    else if (position > 0 && rest.length < most) rest.push(id);
    if (first.length >= most) break;
  }
  return [...first, ...rest].slice(0, most);
}

/** Return the page of the only match of *text*, or the list of those that match. */
function addressOf(shown: State, text: string): string {
  const words = text.trim().toLowerCase();
  const nodes = matching(shown.nodes.id, words, 2);
  const guests = matching(shown.guests.id, words, 2);
  const exact = (ids: readonly string[]): string | undefined => ids.find((id) => id.toLowerCase() === words);
  const node = exact(shown.nodes.id) ?? (guests.length === 0 && nodes.length === 1 ? nodes[0] : undefined);
  if (node !== undefined) return href("nodes", node);
  const guest = exact(shown.guests.id) ?? (nodes.length === 0 && guests.length === 1 ? guests[0] : undefined);
  if (guest !== undefined) return href("guests", guest);
  const screen = guests.length === 0 && nodes.length > 0 ? "nodes" : "guests";
  return `${href(screen)}?${new URLSearchParams({ q: text.trim() }).toString()}`;
}

export function Finder(props: { onFound: () => void }): JSX.Element {
  const shown = state.value;
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      field.current?.focus();
      field.current?.select();
    };
    window.addEventListener("keydown", focus);
    return () => window.removeEventListener("keydown", focus);
  }, []);
  const suggestions = useMemo(() => {
    const words = text.trim().toLowerCase();
    if (shown === null || words === "") return [];
    const nodes = matching(shown.nodes.id, words, SUGGESTIONS);
    return [...nodes, ...matching(shown.guests.id, words, SUGGESTIONS)].slice(0, SUGGESTIONS);
  }, [text, shown?.nodes.id, shown?.guests.id]);
  return (
    <form
      class="finder"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (shown === null || text.trim() === "") return;
        navigate(addressOf(shown, text));
        setText("");
        props.onFound();
      }}
    >
      <input
        ref={field}
        type="search"
        class="input"
        list="all-subjects"
        aria-label="Find a node or guest"
        aria-keyshortcuts="Control+K Meta+K"
        placeholder={`Find … (${APPLE ? "⌘" : "Ctrl+"}K)`}
        title="Find a node or guest, and open its page with Enter"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <datalist id="all-subjects">
        {suggestions.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
    </form>
  );
}
