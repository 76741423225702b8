/** Sign in with a token, or by OpenID Connect. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, put, sentence, session } from "../api/client";
import { signInProblem } from "../api/oidc";
import type { Session, SignIn } from "../api/types";
import { ErrorNote } from "../components/parts";

export function Login(): JSX.Element {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    signInProblem.value = null;
    try {
      session.value = await put<Session>("/session", { token: token.trim() });
    } catch (problem) {
      signInProblem.value = sentence(problem);
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)}>
        <h1>OpenDRS</h1>
        <Issuer />
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
        {signInProblem.value !== null ? <ErrorNote text={signInProblem.value} /> : null}
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

/** The link to the page that begins a sign-in by OpenID Connect, if it is configured. */
function Issuer(): JSX.Element | null {
  const [found, setFound] = useState<SignIn["oidc"]>(null);
  useEffect(() => {
    get<SignIn>("/sign-in").then(({ oidc }) => setFound(oidc), () => undefined);
  }, []);
  if (found === null) return null;
  return <a class="button" href={found.location}>Sign in with {found.name}</a>;
}
