/** Documents: those that are there, new ones, searches, deletions. */

import { get, post, remove } from "../api";
import { button, el, field, foreign, table } from "../dom";
import { passageList } from "../passages";
import type { DocumentPage, FileChange, Listed, Passage } from "../replies";
import { errorLine, section, statusLine, wordsOf, type View } from "../view";
import { bytes, count } from "../words";

const FILES_MAX = 100; // at once: each waits for its embeddings
const FILE_BYTES_MAX = 32 << 20; // as the server has it

export function documentsView(): View {
  const own = section("documents", "Documents");
  const status = statusLine();
  const error = errorLine();
  const tenant = el("input", { type: "text", autocomplete: "off" });
  const contains = el("input", { type: "search", autocomplete: "off" });
  const list = el("div", {});
  const more = button("Show more", () => void load(next));
  const adding = el("div", { hidden: true });
  const readOnly = el(
    "p",
    { hidden: true },
    "This server takes no changes. Start it with heddle serve --allow-changes to put and delete documents here.",
  );
  let next: string | null = null;
  let shown: Listed[] = [];
  let takesChanges = false;
  let isFirst = true;
  let newest = 0; // the newest list that was asked for: answers to earlier ones are dropped

  const filter = el(
    "form",
    { class: "fields" },
    field("Id or title holds", contains),
    field("Tenant", tenant, "Empty: documents without a tenant, or your key's."),
    el("button", { type: "submit" }, "List"),
  );
  filter.addEventListener("submit", (event) => {
    event.preventDefault();
    void load(null);
  });
  adding.append(...dropZone(put));
  own.append(
    readOnly,
    adding,
    ...searchParts(() => tenant.value.trim()),
    el("h2", {}, "All documents"),
    filter,
    status,
    error,
    list,
    more,
  );

  async function load(after: string | null): Promise<void> {
    newest += 1;
    const mine = newest;
    const query = new URLSearchParams();
    if (tenant.value.trim()) query.set("tenant", tenant.value.trim());
    if (contains.value) query.set("contains", contains.value);
    if (after) query.set("after", after);
    try {
      const page = await get<DocumentPage>(`/v1/documents?${query}`);
      if (mine !== newest) return;
      error.textContent = "";
      shown = after ? [...shown, ...page.documents] : page.documents;
      next = page.next;
      takesChanges = page.takes_changes;
      isFirst = false;
      draw();
    } catch (found) {
      error.textContent = wordsOf(found);
    }
  }

  function draw(): void {
    adding.hidden = !takesChanges;
    readOnly.hidden = takesChanges;
    more.hidden = next === null;
    status.textContent = `${count(shown.length, "document")} shown${next ? ", and there are more" : ""}.`;
    const rows = shown.map((one) => [
      foreign(one.title || one.id),
      foreign(one.id),
      one.tenant ? foreign(one.tenant) : "",
      String(one.chunks),
      takesChanges ? deletion(one) : "",
    ]);
    list.replaceChildren(table("Documents", ["title", "id", "tenant", "chunks", "delete"], rows));
  }

  function deletion(one: Listed): HTMLElement {
    const made = button("Delete", () => void confirmed(one), "danger");
    made.setAttribute("aria-label", `Delete ${one.title || one.id}`);
    return made;
  }

  async function confirmed(one: Listed): Promise<void> {
    if (!(await isSure(one))) return;
    const query = new URLSearchParams({ id: one.id, ...(one.tenant ? { tenant: one.tenant } : {}) });
    try {
      await remove(`/v1/documents?${query}`);
      await load(null);
      status.textContent = "Deleted.";
      own.querySelector<HTMLElement>("h1")?.focus(); // the button that was pressed is gone
    } catch (found) {
      error.textContent = wordsOf(found);
    }
  }

  async function put(file: File): Promise<string> {
    if (file.size > FILE_BYTES_MAX) {
      throw new Error(`has ${bytes(file.size)}; a server takes files of up to 32 MiB. Use heddle index.`);
    }
    const form = new FormData();
    form.append("file", file);
    const named = tenant.value.trim();
    const query = named ? `?${new URLSearchParams({ tenant: named })}` : "";
    const done = await post<FileChange>(`/v1/documents/file${query}`, form);
    await load(null);
    return outcomeOf(done);
  }

  return {
    name: "documents",
    title: "Documents",
    section: own,
    show: () => {
      if (isFirst) void load(null);
    },
    hide: () => {},
  };
}

function outcomeOf(done: FileChange): string {
  const outcomes = Object.entries(done.outcomes);
  if (done.documents === 1) return outcomes.map(([outcome]) => outcome).join();
  const counts = outcomes.map(([outcome, times]) => `${times} ${outcome}`).join(", ");
  return `${count(done.documents, "document")}: ${counts}`;
}

function isSure(one: Listed): Promise<boolean> {
  return new Promise((settle) => {
    const dialog = el(
      "dialog",
      { "aria-labelledby": "sure" },
      el("h2", { id: "sure" }, "Delete this document?"),
      el("p", {}, foreign(one.title || one.id)),
      one.file ? el("p", { class: "hint" }, "It was read from ", foreign(one.file), ", which stays.") : null,
    );
    const close = (isYes: boolean) => () => dialog.close(isYes ? "yes" : "");
    dialog.append(
      el("div", { class: "buttons" }, button("Keep it", close(false)), button("Delete it", close(true), "danger")),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      settle(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function dropZone(put: (file: File) => Promise<string>): HTMLElement[] {
  const files = el("input", { type: "file", multiple: true });
  const bar = el("progress", { max: 1, value: 0, "aria-label": "Files put in", hidden: true });
  const status = statusLine();
  const outcomes = el("ul", { class: "outcomes" });
  const zone = el(
    "div",
    { class: "drop" },
    field("Put files in", files, "Choose them, or drop them here: text, Markdown, HTML, PDF, DOCX, PPTX, EPUB, CSV, JSONL; up to 32 MiB each."),
    bar,
    status,
    outcomes,
  );
  let isBusy = false;

  async function take(chosen: File[]): Promise<void> {
    if (!chosen.length) return;
    if (isBusy || chosen.length > FILES_MAX) {
      status.textContent = isBusy ? "Wait until those before are in." : `At most ${FILES_MAX} files at once.`;
      return;
    }
    isBusy = true;
    bar.hidden = false;
    bar.max = chosen.length;
    bar.value = 0;
    outcomes.replaceChildren();
    let failed = 0;
    for (const [place, file] of chosen.entries()) {
      status.textContent = `Putting in ${place + 1} of ${chosen.length} …`;
      try {
        outcomes.append(el("li", {}, foreign(file.name), `: ${await put(file)}`));
      } catch (found) {
        failed += 1;
        // A parser's words begin with the file's name, too.
        const words = wordsOf(found);
        const name = `${file.name}: `;
        const own = words.startsWith(name) ? words.slice(name.length) : words;
        outcomes.append(el("li", { class: "error" }, foreign(file.name), `: ${own}`));
      }
      bar.value = place + 1;
    }
    status.textContent = `${count(chosen.length - failed, "file")} in, ${failed} refused.`;
    isBusy = false;
    files.value = "";
  }

  files.addEventListener("change", () => void take([...(files.files ?? [])]));
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    void take([...(event.dataTransfer?.files ?? [])]);
  });
  return [el("h2", {}, "New documents"), zone];
}

function searchParts(tenant: () => string): HTMLElement[] {
  const query = el("input", { type: "search", required: true, autocomplete: "off" });
  const status = statusLine();
  const error = errorLine();
  const found = el("div", {});
  const form = el(
    "form",
    { class: "fields" },
    field("Search in the texts", query),
    el("button", { type: "submit" }, "Search"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void run();
  });

  async function run(): Promise<void> {
    error.textContent = "";
    found.replaceChildren();
    status.textContent = "Searching …";
    try {
      const body = { query: query.value, ...(tenant() ? { tenant: tenant() } : {}) };
      const { passages } = await post<{ passages: Passage[] }>("/v1/search", body);
      status.textContent = `${count(passages.length, "passage")} found.`;
      found.replaceChildren(passageList(passages, []));
    } catch (problem) {
      status.textContent = "";
      error.textContent = wordsOf(problem);
    }
  }

  return [el("h2", {}, "Search"), form, status, error, found];
}
