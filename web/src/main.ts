/** The page: its head, its views, and which of them is shown. */

import "./page.css";
import { el, field } from "./dom";
import { key, setKey } from "./key";
import { ASK, askView } from "./views/ask";
import { documentsView } from "./views/documents";
import { liveView } from "./views/live";
import { timelineView } from "./views/timeline";
import { workflowView } from "./views/workflow";

const views = [askView(), timelineView(), workflowView(), liveView(), documentsView()];
const links = new Map(views.map((view) => [view.name, el("a", { href: `#${view.name}` }, view.title)]));
const main = el("main", { id: "main" }, ...views.map((view) => view.section));
let shown = "";

function chosen(): string {
  const name = location.hash.slice(1);
  return links.has(name) ? name : ASK;
}

function show(isByUser: boolean): void {
  const name = chosen();
  if (name === shown) return;
  shown = name;
  for (const view of views) {
    const isShown = view.name === name;
    const link = links.get(view.name);
    if (isShown) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
    if (!isShown && !view.section.hidden) view.hide();
    view.section.hidden = !isShown;
    if (!isShown) continue;
    document.title = `${view.title} · Heddle`;
    view.show();
    if (isByUser) view.section.querySelector<HTMLElement>("h1")?.focus();
  }
}

function keyField(): HTMLElement {
  const input = el("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  input.value = key();
  input.addEventListener("input", () => setKey(input.value));
  // What the view could not read without it is read now.
  input.addEventListener("change", () => views.find(({ name }) => name === shown)?.show());
  return el(
    "details",
    { class: "key" },
    el("summary", {}, "API key"),
    field("API key", input, "Kept until this tab is closed, and sent to this server alone."),
  );
}

const skip = el("a", { class: "skip", href: "#main" }, "Skip to the content");
skip.addEventListener("click", (event) => {
  event.preventDefault(); // the address names the view
  document.querySelector<HTMLElement>("section:not([hidden]) h1")?.focus();
});

document.body.append(
  skip,
  el(
    "header",
    {},
    el("p", { class: "brand" }, "Heddle"),
    el(
      "nav",
      { "aria-label": "Views" },
      el("ul", {}, ...[...links.values()].map((link) => el("li", {}, link))),
    ),
    keyField(),
  ),
  main,
);
window.addEventListener("hashchange", () => show(true));
show(false);
