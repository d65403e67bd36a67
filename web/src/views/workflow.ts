/** A workflow's graph, and what each optimizer pass did to it. */

import { get } from "../api";
import { el, field, scrolling, svg, table } from "../dom";
import type { Explained, Graph, Workflows } from "../replies";
import { lastAsked, onAnswer } from "../state";
import { errorLine, section, statusLine, wordsOf, type View } from "../view";
import { seconds } from "../words";

const BOX = { height: 42, row: 58, gap: 44, margin: 8, character: 7.3 };
const NAME_MAX = 36; // longer names are cut in the picture; the table has them whole

export function workflowView(): View {
  const own = section("workflow", "A workflow's graph");
  const chosen = el("select", {});
  const region = el("select", {});
  const step = el("select", {});
  const status = statusLine();
  const error = errorLine();
  const content = el("div", {});
  let explained: Explained | null = null;
  own.append(
    el(
      "div",
      { class: "fields" },
      field("Workflow to draw", chosen),
      field("Part of it", region),
      field("Graph", step),
    ),
    status,
    error,
    content,
  );
  chosen.addEventListener("change", () => void load());
  region.addEventListener("change", () => {
    fillSteps();
    draw();
  });
  step.addEventListener("change", draw);
  onAnswer(({ workflow }) => {
    if (workflow) chosen.value = workflow;
    explained = null; // its request may have opened new parts
    if (!own.hidden) void load();
  });

  async function loadNames(): Promise<void> {
    const { workflows, default: byDefault } = await get<Workflows>("/v1/workflows");
    const wanted = chosen.value || lastAsked()?.workflow || byDefault || "";
    chosen.replaceChildren(...workflows.map((name) => el("option", { value: name }, name)));
    if (workflows.includes(wanted)) chosen.value = wanted;
  }

  async function load(): Promise<void> {
    error.textContent = "";
    try {
      if (!chosen.options.length) await loadNames();
      const name = chosen.value;
      if (!name) return;
      const found = await get<Explained>(`/v1/explain?workflow=${encodeURIComponent(name)}`);
      if (name !== chosen.value) return; // another one was chosen meanwhile
      explained = found;
      fillRegions(found);
      draw();
    } catch (found) {
      error.textContent = wordsOf(found);
    }
  }

  function fillRegions({ regions }: Explained): void {
    const options = regions.map(({ when }, place) => el("option", { value: place }, `${place + 1}: ${when}`));
    region.replaceChildren(...options);
    fillSteps();
  }

  function fillSteps(): void {
    const passes = explained?.regions[Number(region.value)]?.passes ?? [];
    step.replaceChildren(
      el("option", { value: -1 }, "as it was lowered"),
      ...passes.flatMap((pass, place) =>
        pass.acted ? [el("option", { value: place }, `behind ${pass.name}`)] : [],
      ),
    );
    const last = step.options.item(step.options.length - 1);
    if (last) step.value = last.value;
  }

  function draw(): void {
    const shown = explained?.regions[Number(region.value)];
    if (!explained || !shown) {
      const words = explained?.is_function
        ? "A Python function makes this workflow as it runs: ask with it once, then look again."
        : "There is no graph to draw.";
      status.textContent = explained ? words : "";
      content.replaceChildren();
      return;
    }
    status.textContent = explained.has_passes ? "" : "Optimizations are off: no pass runs.";
    const graph = shown.passes[Number(step.value)]?.graph ?? shown.graph;
    const ran = timesOf(explained.workflow);
    content.replaceChildren(
      picture(graph, ran),
      el(
        "p",
        { class: "hint" },
        "Solid: a value. Dashed: an effect. Dotted: only an order. Thick: item by item, early.",
      ),
      primitiveTable(graph, ran),
      table(
        "What each pass did",
        ["pass", "acted", "what it changed, or why not"],
        shown.passes.map((pass) => [pass.name, pass.acted ? "yes" : "no", pass.words]),
      ),
      table(
        "On every scheduling cycle, over all requests",
        ["pass", "what it did"],
        explained.cycle_passes.map((pass) => [pass.name, pass.words]),
      ),
    );
    if (explained.is_cut) content.append(el("p", {}, "There are more parts; these are the first."));
  }

  return {
    name: "workflow",
    title: "Workflow",
    section: own,
    show: () => {
      if (!explained) void load();
    },
    hide: () => {},
  };
}

/** How long each stage of the last request ran, if it was of this workflow. */
function timesOf(workflow: string): Map<string, number> {
  const asked = lastAsked();
  if (!asked || asked.workflow !== workflow) return new Map();
  return new Map(asked.answer.timeline.stages.map((stage) => [stage.name, stage.done_s - stage.begun_s]));
}

function primitiveTable(graph: Graph, ran: Map<string, number>): HTMLElement {
  const rows = graph.primitives.map(({ name, kind }) => {
    const before = graph.edges.filter((edge) => edge.to === name).map((edge) => edge.from);
    const length = ran.get(name);
    return [name, kind, [...new Set(before)].join(", "), length === undefined ? "" : seconds(length)];
  });
  return table("Primitives", ["primitive", "kind", "waits for", "ran in the last request"], rows);
}

function picture(graph: Graph, ran: Map<string, number>): HTMLElement {
  const cut = (name: string) => (name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 1)}…` : name);
  const longest = Math.max(20, ...graph.primitives.map(({ name }) => cut(name).length));
  const width = BOX.character * longest + 16;
  const filled = new Map<number, number>();
  const corners = new Map(
    graph.primitives.map(({ name, column }) => {
      const row = filled.get(column) ?? 0;
      filled.set(column, row + 1);
      return [name, { x: BOX.margin + column * (width + BOX.gap), y: BOX.margin + row * BOX.row }];
    }),
  );
  const size = {
    width: 2 * BOX.margin + filled.size * (width + BOX.gap) - BOX.gap,
    height: 2 * BOX.margin + Math.max(1, ...filled.values()) * BOX.row - (BOX.row - BOX.height),
  };
  const edges = graph.edges.map(({ from, to, kind }) => {
    const [start, end] = [corners.get(from), corners.get(to)];
    if (!start || !end) return null;
    const aside = kind === "items" ? 8 : 0; // one that may begin early has two edges
    const [x1, y1] = [start.x + width, start.y + BOX.height / 2 + aside];
    const [x2, y2] = [end.x, end.y + BOX.height / 2 + aside];
    const bend = BOX.gap * 0.6;
    const line = `M ${x1} ${y1} C ${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}`;
    return svg("path", { class: `edge ${kind}`, d: `${line} l -5 -3 l 5 3 l -5 3` });
  });
  const boxes = graph.primitives.map(({ name, kind }) => {
    const { x, y } = corners.get(name) ?? { x: 0, y: 0 };
    const length = ran.get(name);
    const above = length === undefined ? kind : `${kind}, ${seconds(length)}`;
    return svg(
      "g",
      {},
      svg("title", {}, name),
      svg("rect", { class: "box", x, y, width, height: BOX.height, rx: 5 }),
      svg("text", { class: "kind", x: x + 8, y: y + 16 }, above),
      svg("text", { x: x + 8, y: y + 33 }, cut(name)),
    );
  });
  const label = `Graph of ${graph.primitives.length} primitives; the table below says the same in words`;
  const drawing = svg(
    "svg",
    { role: "img", "aria-label": label, viewBox: `0 0 ${size.width} ${size.height}`, ...size },
    ...edges,
    ...boxes,
  );
  return scrolling("Graph", drawing);
}
