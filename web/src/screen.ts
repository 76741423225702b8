/** Size of the screen. */

import { signal } from "@preact/signals";

const narrow = window.matchMedia("(max-width: 700px)");

export const isPhone = signal(narrow.matches);

narrow.addEventListener("change", (event) => {
  isPhone.value = event.matches;
});
