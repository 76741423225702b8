/** Router by the location hash: `#/nodes/node17?sort=cpu`. */

import { signal } from "@preact/signals";

export interface Route {
  path: readonly string[];
  query: URLSearchParams;
}

function parse(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decode);
  return { path: parts, query: new URLSearchParams(search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(parse(window.location.hash));

window.addEventListener("hashchange", () => {
  route.value = parse(window.location.hash);
});

/** Return the address of a screen. */
export function href(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function navigate(address: string): void {
  window.location.hash = address;
}

/** Show another screen without a new entry in the history. */
export function replace(address: string): void {
  window.history.replaceState(null, "", address);
  route.value = parse(window.location.hash);
}

/** Change one parameter of the present address without a new entry in the history. */
export function setParameter(name: string, value: string | null): void {
  const { path, query } = route.peek();
  const next = new URLSearchParams(query);
  if (value === null || value === "") next.delete(name);
  else next.set(name, value);
  const search = next.toString();
  replace(href(...path) + (search ? `?${search}` : ""));
}
