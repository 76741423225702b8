/** Sign in with a token. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { put, sentence, session } from "../api/client";
import type { Session } from "../api/types";
import { ErrorNote } from "../components/parts";

export function Login(): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      session.value = await put<Session>("/session", { token: token.trim() });
    } catch (problem) {
      setError(sentence(problem));
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)}>
        <h1>OpenDRS</h1>
        <label class="field">
          <span>Token</span>
          <input
            class="input"
            type="password"
            name="token"
            autocomplete="current-password"
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {error !== null ? <ErrorNote text={error} /> : null}
        <button type="submit" class="button primary" disabled={busy}>
          Sign in
        </button>
        <p class="muted">
          An administrator creates tokens with <code>opendrs access</code>.
        </p>
      </form>
    </main>
  );
}
