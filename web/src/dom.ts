/** Makes elements. Texts become text nodes, so nothing that a document holds is read as markup. */

export type Child = Node | string | null;
type Attributes = Record<string, string | number | boolean>;

const SVG = "http://www.w3.org/2000/svg";

function fill<T extends Element>(made: T, attributes: Attributes, children: Child[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A text of somebody else, set apart so that its writing direction ends with it. */
export function foreign(text: string): HTMLElement {
  return el("bdi", {}, text);
}

/** A table in a frame that scrolls by itself, and that the keyboard reaches. */
export function table(caption: string, head: string[], rows: Child[][]): HTMLElement {
  return scrolling(
    caption,
    el(
      "table",
      {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...head.map((cell) => el("th", { scope: "col" }, cell)))),
      el(
        "tbody",
        {},
        ...rows.map((row) =>
          el(
            "tr",
            {},
            ...row.map((cell, place) => el(place ? "td" : "th", place ? {} : { scope: "row" }, cell)),
          ),
        ),
      ),
    ),
  );
}

export function scrolling(label: string, content: Node): HTMLElement {
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, content);
}

let made = 0;

/** A control under its label. */
export function field(label: string, control: HTMLElement, hint = ""): HTMLElement {
  made += 1;
  control.id ||= `field-${made}`;
  const words = hint ? el("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (words) control.setAttribute("aria-describedby", words.id);
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control, words);
}

export function button(label: string, onClick: () => void, kind = "plain"): HTMLButtonElement {
  const made = el("button", { type: "button", class: kind }, label);
  made.addEventListener("click", onClick);
  return made;
}
