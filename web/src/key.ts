/** The API key, kept until the tab is closed and written nowhere else. */

const NAME = "heddle-key";
let held = read();

function read(): string {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return ""; // the browser keeps nothing for this page: the key lasts until it is loaded again
  }
}

export function key(): string {
  return held;
}

export function setKey(text: string): void {
  held = text.trim();
  try {
    if (held) sessionStorage.setItem(NAME, held);
    else sessionStorage.removeItem(NAME);
  } catch {
    // As above.
  }
}
