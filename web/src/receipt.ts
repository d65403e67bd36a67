/** A receipt in plain words. */

import { el } from "./dom";
import type { Receipt } from "./replies";
import { count, counted, seconds, share } from "./words";

function lines(receipt: Receipt): [string, string][] {
  const found: [string, string][] = [["Time", `${seconds(receipt.latency_s)} from question to answer`]];
  const add = (name: string, words: string, isThere: unknown) => {
    if (isThere) found.push([name, words]);
  };
  const recall = receipt.recall;
  add(
    "Measured recall",
    `${share(recall?.recall ?? 0, 1)} over ${count(recall?.checks ?? 0, "checked search", "checked searches")}, ` +
      `at least ${share(recall?.at_least ?? 0, 1)}`,
    recall,
  );
  found.push(...counted(receipt));
  for (const fused of receipt.kv_reuse) {
    add("Stored KV", `${fused.policy}, ${count(fused.tokens_recomputed, "token")} computed again`, true);
  }
  const won = receipt.speculations.filter((one) => one.is_adopted).length;
  const lost = receipt.speculations.length - won;
  add("Begun early", `${won} won, ${lost} lost`, receipt.speculations.length);
  add(
    "Searches while writing",
    String(receipt.splices.length),
    receipt.splices.length,
  );
  add("Optimizations", `${receipt.optimizations}; results: ${receipt.numerics}`, true);
  add("Passes that changed the graph", receipt.passes.join(", "), receipt.passes.length);
  add("Changed under way", receipt.edits.join("; "), receipt.edits.length);
  add("Searched by", receipt.searched_by.join("; "), receipt.searched_by.length);
  add("Other servers", receipt.remotes.join(", "), receipt.remotes.length);
  add("Ran degraded", receipt.degradations.map((one) => one.reason).join("; ") || "nowhere", true);
  return found;
}

export function receiptList(receipt: Receipt): HTMLElement {
  return el(
    "dl",
    { class: "receipt" },
    ...lines(receipt).map(([name, words]) => el("div", {}, el("dt", {}, name), el("dd", {}, words))),
  );
}
