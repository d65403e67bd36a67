/** What the server replies with; docs/reference/http.md describes it. Times are in seconds. */

import type { CounterName } from "./counters";

export interface Place {
  file: string;
  page: number | null;
  heading: string[];
  start: number;
  end: number;
}

export interface Passage {
  title: string;
  text: string;
  document_id: string;
  chunk_id: number;
  place: Place;
  copies: number;
  distance: number;
  score: number | null;
}

/** `start` and `end` count characters in the document's text. */
export interface Quotation {
  text: string;
  sentence: string;
  score: number;
  start: number;
  end: number;
  chunk_id: number;
  document_id: string;
  title: string;
  place: Place;
}

export interface Receipt extends Record<CounterName, number> {
  optimizations: string;
  latency_s: number;
  passes: string[];
  degradations: { kind: string; reason: string }[];
  edits: string[];
  remotes: string[];
  searched_by: string[];
  numerics: string;
  recall: { recall: number; at_least: number; checks: number } | null;
  kv_reuse: { policy: string; tokens_recomputed: number }[];
  speculations: { is_adopted: boolean; gain_s: number; tokens_wasted: number }[];
  splices: { chunks_added: number }[];
}

export interface Stage {
  name: string;
  node: string;
  kind: string;
  engine: string;
  rows: number;
  ready_s: number;
  sent_s: number;
  begun_s: number;
  done_s: number;
  is_on_path: boolean;
}

export interface Ahead {
  node: string;
  turn: number;
  engine: string;
  start_s: number | null;
  end_s: number | null;
  is_adopted: boolean;
  probability: number;
  gain_s: number;
  tokens_prompt: number;
  tokens_wasted: number;
}

export interface Timeline {
  latency_s: number;
  stages: Stage[];
  ahead: Ahead[];
  path: { name: string; between_s: number; waited_s: number; ran_s: number }[];
  rest_s: number;
}

export interface Answer {
  answer: string;
  quotes: Quotation[];
  nearest: Quotation[];
  passages: Passage[];
  receipt: Receipt;
  timeline: Timeline;
}

export interface Live {
  status: string;
  ready: boolean;
  notes: Record<string, string[]>;
  requests: number;
  finished: number;
  failed: number;
  predicted_wait_s: number;
  lanes: Record<string, { state: string; restarts: number; reason: string }>;
  engines: Record<
    string,
    {
      queued: number;
      sent: number;
      waiting: number;
      running: number;
      gauges: Record<string, number>;
    }
  >;
  embedding: Record<string, { queries: number; stretch: number }>;
  chunk_hits: Record<string, number>;
  counters: Record<CounterName, number>;
  corpus_revision: number | null;
}

export interface Listed {
  id: string;
  tenant: string;
  title: string;
  file: string;
  collection: string;
  chunks: number;
}

/** What putting a file in did: how many of its documents were added, changed or unchanged. */
export interface FileChange {
  documents: number;
  outcomes: Record<string, number>;
}

export interface DocumentPage {
  documents: Listed[];
  next: string | null;
  takes_changes: boolean;
}

export interface Graph {
  primitives: { name: string; node: string; kind: string; column: number }[];
  edges: { from: string; to: string; kind: string }[];
}

export interface Workflows {
  workflows: string[];
  default: string | null;
}

export interface Explained {
  workflow: string;
  is_function: boolean;
  is_cut: boolean;
  has_passes: boolean;
  regions: {
    when: string;
    graph: Graph;
    passes: { name: string; acted: boolean; words: string; graph: Graph | null }[];
  }[];
  cycle_passes: { name: string; words: string }[];
}
