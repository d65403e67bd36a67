/** Numbers in words. A number and its unit stay on one line. */

import { COUNTERS, type CounterName } from "./counters";

const SPACE = "\u00a0";

export function seconds(length: number): string {
  if (Math.abs(length) >= 1) return `${length.toFixed(2)}${SPACE}s`;
  return `${(length * 1e3).toFixed(length >= 0.01 ? 0 : 1)}${SPACE}ms`;
}

export function count(number: number, noun: string, plural = `${noun}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

export function bytes(size: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (size >= 1024 && place < units.length - 1) {
    size /= 1024;
    place += 1;
  }
  return `${size.toFixed(place && size < 10 ? 1 : 0)}${SPACE}${units[place]}`;
}

export function share(part: number, whole: number): string {
  return whole ? `${Math.round((100 * part) / whole)}${SPACE}%` : "none yet";
}

/** The counters that are not 0: what each counts, and its count. */
export function counted(counts: Record<CounterName, number>): [string, string][] {
  const show = { "": (number: number) => number.toLocaleString("en"), bytes, s: seconds };
  return COUNTERS.filter(({ name }) => counts[name]).map(({ name, unit, meaning }) => [
    meaning,
    show[unit](counts[name]),
  ]);
}
