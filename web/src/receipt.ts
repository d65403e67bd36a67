/** A receipt in plain words. */

import { el } from "./dom";
import type { Receipt } from "./replies";
import { count, seconds, share } from "./words";

function lines(receipt: Receipt): [string, string][] {
  const found: [string, string][] = [["Time", `${seconds(receipt.latency_s)} from question to answer`]];
  const add = (name: string, words: string, isThere: unknown) => {
    if (isThere) found.push([name, words]);
  };
  const { lists_scanned: scanned, lists_probed: probed } = receipt;
  add("Search", `${scanned} of ${count(probed, "planned cluster")} of the index scanned`, probed);
  add("Search", `${count(receipt.nodes_opened, "node")} of the graph opened`, receipt.nodes_opened);
  const recall = receipt.recall;
  add(
    "Measured recall",
    `${share(recall?.recall ?? 0, 1)} over ${count(recall?.checks ?? 0, "checked search", "checked searches")}, ` +
      `at least ${share(recall?.at_least ?? 0, 1)}`,
    recall,
  );
  add(
    "Reading",
    `${count(receipt.passages_read, "passage")}, ${count(receipt.tokens_read, "token")}`,
    receipt.passages_read,
  );
  add(
    "Prompts",
    `${count(receipt.prompt_tokens, "token")}, ` +
      `${share(receipt.prompt_tokens_reused, receipt.prompt_tokens)} of them reused from earlier work`,
    receipt.prompt_tokens,
  );
  add("Writing", count(receipt.generated_tokens, "token"), receipt.generated_tokens);
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
  add("Other servers", receipt.remotes.join(", "), receipt.remotes.length);
  add("Cut texts", count(receipt.texts_truncated, "text"), receipt.texts_truncated);
  add("Sent again", count(receipt.retries, "stage"), receipt.retries);
  add("Went on after a failure", count(receipt.resumed, "generation"), receipt.resumed);
  add("Lost their memory for a while", count(receipt.preemptions, "sequence"), receipt.preemptions);
  add("Ran degraded", receipt.fallbacks.join("; ") || "nowhere", true);
  return found;
}

export function receiptList(receipt: Receipt): HTMLElement {
  return el(
    "dl",
    { class: "receipt" },
    ...lines(receipt).map(([name, words]) => el("div", {}, el("dt", {}, name), el("dd", {}, words))),
  );
}
