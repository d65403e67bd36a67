/** A view of the page: one section, shown while it is chosen. */

import { el } from "./dom";

export interface View {
  name: string;
  title: string;
  section: HTMLElement;
  /** Called when it is shown, and when it is hidden. */
  show(): void;
  hide(): void;
}

export function section(name: string, title: string): HTMLElement {
  return el(
    "section",
    { id: `view-${name}`, "aria-labelledby": `${name}-title`, hidden: true },
    el("h1", { id: `${name}-title`, tabindex: -1 }, title),
  );
}

/** A line that screen readers say when it changes. */
export function statusLine(): HTMLElement {
  return el("p", { role: "status", class: "status" });
}

/** Shows an error's words, to screen readers at once. */
export function errorLine(): HTMLElement {
  return el("p", { role: "alert", class: "error" });
}

export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
