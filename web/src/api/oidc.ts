/** Sign-in by OpenID Connect, on the page `/sign-in` to which the issuer redirects. */

import { signal } from "@preact/signals";
import { put, sentence } from "./client";
import type { OidcLocation, Session } from "./types";

const PATH = "/sign-in";

/** The problem of the last attempt to sign in; null without one. */
export const signInProblem = signal<string | null>(null);

/** Return true on the page that begins and completes sign-ins. */
export function isSignInPage(): boolean {
  return window.location.pathname === PATH;
}

/**
 * Complete a sign-in with the response of the issuer in the address, or begin one.
 * Return the session, null after a problem, or undefined when the page is left.
 */
export async function signIn(): Promise<Session | null | undefined> {
  const response = new URLSearchParams(window.location.search);
  const code = response.get("code");
  const state = response.get("state");
  try {
    if (code !== null && state !== null) {
      window.history.replaceState(null, "", "/"); // the code is used once
      return await put<Session>("/session/oidc", { state, code });
    }
    const rejection = response.get("error");
    if (rejection !== null) {
      const reason = /^[a-z_]{1,50}$/.test(rejection) ? rejection : "no known reason";
      throw new Error(`The issuer rejects the sign-in: ${reason}`);
    }
    const begun = await put<OidcLocation>("/sign-in/oidc", null);
    window.location.replace(begun.location);
    return undefined;
  } catch (error) {
    window.history.replaceState(null, "", "/");
    signInProblem.value = sentence(error);
    return null;
  }
}
