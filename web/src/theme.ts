/** Light and dark theme: of the system, or as chosen in this browser. */

import { computed, effect, signal } from "@preact/signals";

export type ThemeChoice = "system" | "light" | "dark";

const KEY = "opendrs-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", (event) => {
  systemDark.value = event.matches;
});

function stored(): ThemeChoice {
  const value = window.localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}

export const themeChoice = signal<ThemeChoice>(stored());
export const isDark = computed(() =>
  themeChoice.value === "system" ? systemDark.value : themeChoice.value === "dark",
);

effect(() => {
  window.localStorage.setItem(KEY, themeChoice.value);
  document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
});

export const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");

/** Return a color of the theme, for canvases. */
export function themeColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
