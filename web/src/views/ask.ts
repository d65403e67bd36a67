/** Ask: a question, its answer as it comes, and what it rests on. */

import { asError, events, get } from "../api";
import { button, el, field, foreign } from "../dom";
import { passageList, quoteBlock } from "../passages";
import { receiptList } from "../receipt";
import type { Answer, Passage, Workflows } from "../replies";
import { setAnswer } from "../state";
import { errorLine, section, statusLine, wordsOf, type View } from "../view";
import { count, seconds } from "../words";

export const ASK = "ask";

export function askView(): View {
  const own = section(ASK, "Ask your documents");
  const question = el("textarea", { rows: 2, required: true, autocomplete: "off" });
  const usual = el("option", { value: "" }, "the server's default");
  const workflow = el("select", {}, usual);
  const topk = el("input", { type: "number", min: 1, max: 100, inputmode: "numeric" });
  const hybrid = el("input", { type: "checkbox", id: "hybrid" });
  const tenant = el("input", { type: "text", autocomplete: "off" });
  const ask = el("button", { type: "submit", class: "primary" }, "Ask");
  const stop = button("Stop", () => running?.abort());
  const status = statusLine();
  const error = errorLine();
  // Token by token would be read aloud as noise: only the whole answer is announced.
  const coming = el("p", { class: "coming", "aria-hidden": "true", hidden: true });
  const answered = el("div", { class: "answer", "aria-live": "polite", "aria-atomic": "true" });
  const rest = el("div", {});
  let running: AbortController | null = null;
  let hasWorkflows = false;
  let byDefault = ""; // what the server runs where none is chosen
  stop.disabled = true;

  const form = el(
    "form",
    { class: "ask" },
    field("Question", question, "Enter asks; Shift and Enter begin a new line."),
    field("Workflow", workflow),
    el(
      "details",
      {},
      el("summary", {}, "More options"),
      field("Passages of each search", topk, "Empty: as the workflow has it."),
      el(
        "div",
        { class: "field check" },
        hybrid,
        el("label", { for: "hybrid" }, "Search by words as well as by meaning"),
      ),
      field("Tenant", tenant, "Empty: documents without a tenant, or your key's."),
    ),
    el("div", { class: "buttons" }, ask, stop),
  );
  own.append(form, status, error, coming, answered, rest);

  question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!running) form.requestSubmit();
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!running) void run();
  });

  function body(): Record<string, unknown> {
    return {
      question: question.value,
      stream: true,
      timeline: true,
      ...(workflow.value ? { workflow: workflow.value } : {}),
      ...(topk.value ? { topk: Number(topk.value) } : {}),
      ...(hybrid.checked ? { hybrid: true } : {}),
      ...(tenant.value.trim() ? { tenant: tenant.value.trim() } : {}),
    };
  }

  async function run(): Promise<void> {
    running = new AbortController();
    stop.disabled = false;
    ask.setAttribute("aria-disabled", "true");
    clear();
    status.textContent = "Searching …";
    try {
      await follow(running.signal);
    } catch (found) {
      status.textContent = running.signal.aborted ? "Stopped." : "";
      if (!running.signal.aborted) error.textContent = wordsOf(found);
    } finally {
      running = null;
      stop.disabled = true;
      ask.removeAttribute("aria-disabled");
      coming.hidden = true;
    }
  }

  async function follow(signal: AbortSignal): Promise<void> {
    const asked = { question: question.value, workflow: workflow.value || byDefault };
    let writing = "";
    for await (const { name, data } of events("/v1/ask", body(), signal)) {
      if (name === "retrieved") {
        const { passages } = data as { passages: Passage[] };
        status.textContent = `${count(passages.length, "passage")} found; reading …`;
      } else if (name === "token") {
        const { node, text } = data as { node: string; text: string };
        if (node !== writing) coming.append(`${writing && "\n"}${node}: `);
        writing = node;
        coming.hidden = false;
        coming.append(text);
      } else if (name === "error") {
        throw asError(data, (data as { status?: number }).status ?? 0);
      } else if (name === "answer") {
        const answer = data as Answer;
        show(answer);
        setAnswer({ ...asked, answer });
        return;
      }
    }
    throw new Error("The stream ended before its answer. Ask again.");
  }

  function clear(): void {
    error.textContent = "";
    coming.textContent = "";
    answered.replaceChildren();
    rest.replaceChildren();
  }

  function show(answer: Answer): void {
    coming.hidden = true;
    status.textContent = `Answered in ${seconds(answer.receipt.latency_s)}.`;
    const source = answer.quotes[0];
    answered.replaceChildren(
      el("h2", {}, "Answer"),
      el("p", { class: "words", dir: "auto" }, answer.answer),
      source ? el("p", { class: "place" }, "from ", foreign(source.title)) : "",
    );
    const isFound = answer.quotes.length > 0;
    const quotes = isFound ? answer.quotes : answer.nearest;
    if (quotes.length) {
      rest.append(
        el("h2", {}, isFound ? "Quotes" : "Not found; the nearest places"),
        ...quotes.map(quoteBlock),
      );
    }
    if (answer.passages.length) {
      rest.append(el("h2", {}, "Passages"), passageList(answer.passages, quotes));
    }
    rest.append(
      el("h2", {}, "What was done for it"),
      receiptList(answer.receipt),
      el(
        "p",
        { class: "links" },
        el("a", { href: "#timeline" }, "Its timeline"),
        " · ",
        el("a", { href: "#workflow" }, "Its workflow's graph"),
      ),
    );
  }

  async function loadWorkflows(): Promise<void> {
    try {
      const { workflows, default: found } = await get<Workflows>("/v1/workflows");
      workflow.append(...workflows.map((name) => el("option", { value: name }, name)));
      byDefault = found ?? "";
      if (found) usual.append(`: ${found}`);
      hasWorkflows = true;
      error.textContent = "";
    } catch (found) {
      error.textContent = wordsOf(found);
    }
  }

  return {
    name: ASK,
    title: "Ask",
    section: own,
    show: () => {
      if (!hasWorkflows) void loadWorkflows();
    },
    hide: () => {},
  };
}
