/** The timeline of the last request: a lane for each engine, waits, early work, the path. */

import { el, foreign, table } from "../dom";
import type { Ahead, Stage, Timeline } from "../replies";
import { lastAsked, onAnswer, type Asked } from "../state";
import { section, type View } from "../view";
import { count, seconds } from "../words";

const TICKS = 4;

interface Bar {
  kind: "wait" | "run" | "path" | "won" | "lost";
  start_s: number;
  end_s: number;
  words: string;
}

export function timelineView(): View {
  const own = section("timeline", "Timeline of the last request");
  const content = el("div", {}, el("p", {}, "Ask something first: its timeline stands here."));
  own.append(content);
  const show = (asked: Asked) => content.replaceChildren(...drawn(asked));
  onAnswer(show);
  const asked = lastAsked();
  if (asked) show(asked);
  return { name: "timeline", title: "Timeline", section: own, show: () => {}, hide: () => {} };
}

function drawn({ question, answer }: Asked): HTMLElement[] {
  const { timeline } = answer;
  return [
    el("p", {}, "Question: ", foreign(question)),
    legend(timeline),
    chart(timeline),
    stageTable(timeline),
    pathTable(timeline),
    ...(timeline.ahead.length ? [aheadTable(timeline.ahead)] : []),
  ];
}

function legend({ ahead }: Timeline): HTMLElement {
  const words: [Bar["kind"], string][] = [
    ["wait", "waits for its engine"],
    ["run", "runs"],
    ["path", "runs, and the answer waited for it (the critical path)"],
  ];
  if (ahead.length) words.push(["won", "begun early, and used"], ["lost", "begun early, for nothing"]);
  return el(
    "ul",
    { class: "legend" },
    ...words.map(([kind, text]) => el("li", {}, el("span", { class: `bar ${kind}` }), text)),
  );
}

function chart(timeline: Timeline): HTMLElement {
  const engines = new Map<string, Bar[]>();
  const lane = (engine: string): Bar[] => {
    const bars = engines.get(engine) ?? [];
    engines.set(engine, bars);
    return bars;
  };
  for (const stage of timeline.stages) lane(stage.engine || "runtime").push(...barsOf(stage));
  for (const one of timeline.ahead) {
    if (one.start_s === null || one.end_s === null) continue;
    const kind = one.is_adopted ? "won" : "lost";
    const words = `${one.node} begun early: ${kind}`;
    lane(one.engine).push({ kind, start_s: one.start_s, end_s: one.end_s, words });
  }
  const length = timeline.latency_s || 1;
  const label =
    `${count(engines.size, "lane")} over ${seconds(timeline.latency_s)}; ` +
    "the tables below say the same in words";
  return el(
    "div",
    { class: "chart", role: "img", "aria-label": label },
    ticks(length),
    ...[...engines].map(([engine, bars]) =>
      el(
        "div",
        { class: "lane" },
        el("div", { class: "lane-name" }, engine),
        ...tracks(bars).map((track) =>
          el("div", { class: "track" }, ...track.map((bar) => drawnBar(bar, length))),
        ),
      ),
    ),
  );
}

function barsOf(stage: Stage): Bar[] {
  const bars: Bar[] = [];
  if (stage.sent_s > stage.ready_s) {
    const words = `${stage.name} waits ${seconds(stage.sent_s - stage.ready_s)}`;
    bars.push({ kind: "wait", start_s: stage.ready_s, end_s: stage.sent_s, words });
  }
  bars.push({
    kind: stage.is_on_path ? "path" : "run",
    start_s: stage.begun_s,
    end_s: stage.done_s,
    words: `${stage.name} runs ${seconds(stage.done_s - stage.begun_s)}`,
  });
  return bars;
}

/** Shares bars out over tracks that hold no two at once. */
function tracks(bars: Bar[]): Bar[][] {
  const found: Bar[][] = [];
  for (const bar of [...bars].sort((one, other) => one.start_s - other.start_s)) {
    const free = found.find((track) => (track.at(-1)?.end_s ?? 0) <= bar.start_s);
    if (free) free.push(bar);
    else found.push([bar]);
  }
  return found;
}

function drawnBar(bar: Bar, length_s: number): HTMLElement {
  const made = el("div", { class: `bar ${bar.kind}`, title: bar.words });
  // Not an attribute: the page's policy forbids those, and allows this.
  made.style.left = `${(100 * bar.start_s) / length_s}%`;
  made.style.width = `${(100 * (bar.end_s - bar.start_s)) / length_s}%`;
  return made;
}

function ticks(length_s: number): HTMLElement {
  return el(
    "div",
    { class: "ticks" },
    ...Array.from({ length: TICKS }, (_, place) => el("span", {}, seconds((length_s * place) / TICKS))),
  );
}

function stageTable({ stages }: Timeline): HTMLElement {
  const rows = [...stages]
    .sort((one, other) => one.begun_s - other.begun_s)
    .map((stage) => [
      stage.rows > 1 ? `${stage.name} ×${stage.rows}` : stage.name,
      stage.engine || "runtime",
      seconds(stage.begun_s),
      seconds(stage.sent_s - stage.ready_s),
      seconds(stage.done_s - stage.begun_s),
      stage.is_on_path ? "yes" : "",
    ]);
  return table("Stages", ["stage", "lane", "begins at", "waits", "runs", "on the path"], rows);
}

function pathTable({ path, rest_s: rest, latency_s: latency }: Timeline): HTMLElement {
  const rows = path.map((part) => [
    part.name,
    seconds(part.between_s),
    seconds(part.waited_s),
    seconds(part.ran_s),
  ]);
  rows.push(["until the answer", seconds(rest), "", ""]);
  const caption = `Critical path: adds up to ${seconds(latency)}`;
  return table(caption, ["stage", "before it", "waits", "runs"], rows);
}

function aheadTable(ahead: Ahead[]): HTMLElement {
  const rows = ahead.map((one) => [
    one.node,
    one.is_adopted ? "won" : "lost",
    `${Math.round(100 * one.probability)} %`,
    seconds(one.gain_s),
    String(one.tokens_prompt),
    String(one.tokens_wasted),
  ]);
  const head = ["node", "outcome", "chance given", "gain predicted", "tokens", "tokens wasted"];
  return table("Prompts begun while their search still ran", head, rows);
}
