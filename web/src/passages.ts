/** Passages with the quotes in them highlighted. */

import { el, foreign } from "./dom";
import type { Passage, Place, Quotation } from "./replies";

type Range = [start: number, end: number];

/** Where a passage stands, in words. */
export function placeWords(place: Place, documentId: string): string {
  const where = [place.file || documentId];
  if (place.page !== null) where.push(`page ${place.page}`);
  if (place.heading.length) where.push(place.heading.join(" › "));
  return where.join(", ");
}

export function passageList(passages: Passage[], quotes: Quotation[]): HTMLElement {
  return el(
    "ol",
    { class: "passages" },
    ...passages.map((passage) => {
      const own = quotes.filter((quote) => quote.chunk_id === passage.chunk_id);
      const offset = passage.place.start;
      const ranges = own.map((quote): Range => [quote.start - offset, quote.end - offset]);
      return el(
        "li",
        {},
        el(
          "article",
          {},
          el("h3", {}, foreign(passage.title)),
          el("p", { class: "place" }, foreign(placeWords(passage.place, passage.document_id))),
          el("p", { class: "text", dir: "auto" }, ...marked(passage.text, ranges)),
        ),
      );
    }),
  );
}

/** Returns a text with ranges of it in <mark>. They count characters, not UTF-16 units. */
export function marked(text: string, ranges: Range[]): Node[] {
  const characters = [...text];
  const parts: Node[] = [];
  let at = 0;
  for (const [start, end] of [...ranges].sort((one, other) => one[0] - other[0])) {
    const from = Math.max(at, start);
    if (end <= from || end > characters.length) continue; // beside the passage, or marked already
    parts.push(document.createTextNode(characters.slice(at, from).join("")));
    parts.push(el("mark", {}, characters.slice(from, end).join("")));
    at = end;
  }
  parts.push(document.createTextNode(characters.slice(at).join("")));
  return parts;
}

/** A quoted sentence, its quote in <mark>, and where it stands. */
export function quoteBlock(quote: Quotation): HTMLElement {
  const place = quote.sentence.indexOf(quote.text);
  const before = [...quote.sentence.slice(0, Math.max(0, place))].length;
  const ranges: Range[] = place < 0 ? [] : [[before, before + [...quote.text].length]];
  const where = `${placeWords(quote.place, quote.document_id)}, characters ${quote.start}–${quote.end}`;
  return el(
    "figure",
    { class: "quote" },
    el("blockquote", { dir: "auto" }, ...marked(quote.sentence, ranges)),
    el("figcaption", {}, foreign(quote.title), " · ", foreign(where)),
  );
}
