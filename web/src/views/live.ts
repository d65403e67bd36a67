/** Live lanes: queues, batches, tiers of KV and hits, asked for while somebody looks. */

import { get } from "../api";
import { button, el, table } from "../dom";
import type { Live } from "../replies";
import { errorLine, section, statusLine, wordsOf, type View } from "../view";
import { bytes, count, counted, share } from "../words";

const PAUSE_MS = 2000;

export function liveView(): View {
  const own = section("live", "Live lanes");
  const status = statusLine();
  const error = errorLine();
  const content = el("div", {});
  let isShown = false;
  let isPaused = false;
  let timer = 0;
  const pause = button("Pause", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Go on" : "Pause";
    status.textContent = isPaused ? "Paused." : "Every two seconds.";
    void poll();
  });
  own.append(el("div", { class: "buttons" }, pause), status, error, content);
  document.addEventListener("visibilitychange", () => void poll());

  async function poll(): Promise<void> {
    window.clearTimeout(timer);
    if (!isShown || isPaused || document.hidden) return;
    try {
      const live = await get<Live>("/v1/live");
      if (!isShown) return;
      error.textContent = "";
      update(content, drawn(live));
    } catch (found) {
      const words = wordsOf(found);
      if (error.textContent !== words) error.textContent = words;
    }
    window.clearTimeout(timer); // another call may have set one meanwhile
    timer = window.setTimeout(() => void poll(), PAUSE_MS);
  }

  return {
    name: "live",
    title: "Live",
    section: own,
    show: () => {
      isShown = true;
      if (!isPaused) status.textContent = "Every two seconds.";
      void poll();
    },
    hide: () => {
      isShown = false;
      window.clearTimeout(timer);
    },
  };
}

/** Puts new parts in, and keeps the focus where it was: a table may be scrolled by the keyboard. */
function update(content: HTMLElement, parts: HTMLElement[]): void {
  const focusable = () => [...content.querySelectorAll<HTMLElement>("[tabindex]")];
  const old = focusable();
  const focused = old.findIndex((part) => part === document.activeElement);
  const scrolled = old.map((part) => part.scrollLeft);
  content.replaceChildren(...parts);
  focusable().forEach((part, place) => {
    part.scrollLeft = scrolled[place] ?? 0;
    if (place === focused) part.focus({ preventScroll: true });
  });
}

function drawn(live: Live): HTMLElement[] {
  const parts = [summary(live)];
  const notes = Object.entries(live.notes).flatMap(([name, words]) =>
    words.map((text) => `${name}: ${text}`),
  );
  if (notes.length) {
    parts.push(el("h2", {}, "To mend"), el("ul", {}, ...notes.map((note) => el("li", {}, note))));
  }
  parts.push(engineTable(live), laneTable(live), kvTable(live), hitTable(live));
  return parts;
}

function summary(live: Live): HTMLElement {
  const wait = live.predicted_wait_s > 0 ? `, a new one may wait ${live.predicted_wait_s.toFixed(1)} s` : "";
  return el(
    "p",
    { class: "summary" },
    el("strong", {}, live.ready ? live.status : `not ready (${live.status})`),
    `: ${count(live.requests, "request")} under way${wait}; ` +
      `${live.finished.toLocaleString("en")} answered, ${live.failed.toLocaleString("en")} failed`,
  );
}

function engineTable(live: Live): HTMLElement {
  const rows = Object.entries(live.engines).map(([name, engine]) => [
    name,
    String(engine.queued),
    String(engine.sent),
    String(engine.waiting),
    el(
      "span",
      { class: "batch" },
      meter(engine.running, Math.max(8, engine.running + engine.waiting), `batch of ${name}`),
      ` ${engine.running}`,
    ),
  ]);
  return table("Engines", ["engine", "queued", "sent", "waiting in it", "batch"], rows);
}

function laneTable(live: Live): HTMLElement {
  const rows = Object.entries(live.lanes).map(([name, lane]) => [
    name,
    lane.state,
    String(lane.restarts),
    live.embedding[name] ? String(live.embedding[name].queries) : "",
    lane.reason,
  ]);
  const head = ["lane", "state", "restarts", "queries held", "why"];
  return table("Lanes", head, rows.length ? rows : [["in the server's own process", "", "", "", ""]]);
}

function kvTable(live: Live): HTMLElement {
  const rows: (string | Node)[][] = [];
  for (const [name, { gauges }] of Object.entries(live.engines)) {
    const { kv_pages_held: held, kv_pages_cached: cached, kv_pages_free: free } = gauges;
    if (held !== undefined && cached !== undefined && free !== undefined) {
      const all = held + cached + free;
      rows.push([`${name}: pages held by sequences`, meter(held, all, "pages held"), `${held} of ${all}`]);
      rows.push([`${name}: pages kept for reuse`, meter(cached, all, "pages kept"), `${cached} of ${all}`]);
    }
    const { chunk_kv_entries: entries } = gauges;
    const { chunk_kv_host_bytes: host, chunk_kv_disk_bytes: disk } = gauges;
    if (entries !== undefined) rows.push([`${name}: chunks with stored KV`, "", String(entries)]);
    if (host !== undefined) rows.push([`${name}: stored KV in memory`, "", bytes(host)]);
    if (disk !== undefined) rows.push([`${name}: stored KV on disk`, "", bytes(disk)]);
  }
  const none = [["no engine here keeps KV", "", ""]];
  return table("Tiers of KV", ["what", "share", "amount"], rows.length ? rows : none);
}

function hitTable(live: Live): HTMLElement {
  const counters = live.counters;
  const { prompt_tokens: read, prompt_tokens_reused: reused } = counters;
  const rows = [
    [
      "prompt tokens reused",
      `${reused.toLocaleString("en")} of ${read.toLocaleString("en")}`,
      share(reused, read),
    ],
    ...Object.entries(live.chunk_hits).map(([kind, hits]) => [
      `chunks looked up in stored KV: ${kind}`,
      hits.toLocaleString("en"),
      "",
    ]),
    ...counted(counters).map(([meaning, words]) => [meaning, words, ""]),
  ];
  return table("Hits and work since the start", ["what", "count", "share"], rows);
}

function meter(value: number, max: number, label: string): HTMLElement {
  return el("meter", { value, max: max || 1, "aria-label": label });
}
