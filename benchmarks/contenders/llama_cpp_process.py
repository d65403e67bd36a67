"""llama.cpp in a process of its own: `python -m ... GGUF THREADS`, a JSON line for a JSON line.

The first line out is what the library says of its build. A line in is {"ids": tokens of each
sequence, "answer": tokens, "ubatch": tokens of a step}; the line out {"prefill_s", "decode_s"}: up
to the first token of all, and from there to the last. Needs llama-cpp-python; LLAMA_CPP_LIB_PATH
names another build of the library.

`python -m ... GGUF Q8_0 FILE` writes a file with weights of Q8_0 instead.
"""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
from llama_cpp import llama_cpp

BATCH: Final = 2048
SEQUENCES: Final = 16
CONTEXT: Final = 4608
QUIET: Final = llama_cpp.llama_log_callback(lambda level, text, data: None)


def quantize(source: str, target: str) -> None:
    """Write a model's weights anew as Q8_0."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
    params.allow_requantize = True
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), params):
        raise SystemExit(f"llama.cpp can't quantise {source}")


class Contender:
    """A model and a context for each size of step."""

    def __init__(self, path: str, threads: int) -> None:
        self._model = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params()
        )
        if not self._model:
            raise SystemExit(f"llama.cpp can't load {path}")
        self._vocabulary = llama_cpp.llama_vocab_n_tokens(
            llama_cpp.llama_model_get_vocab(self._model)
        )
        self._threads = threads
        self._contexts: dict[int, Any] = {}
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, SEQUENCES)

    def answer(self, ids: list[list[int]], answer: int, ubatch: int) -> dict[str, float]:
        """Compute prompts, and as many tokens behind each, greedily."""
        context = self._context(ubatch)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        started_s = perf_counter()
        newest = [self._prompt(context, number, tokens) for number, tokens in enumerate(ids)]
        first_s = perf_counter()
        for step in range(answer - 1):
            rows = [(t, len(ids[s]) + step, s, True) for s, t in enumerate(newest)]
            self._decode(context, rows)
            newest = [self._pick(context, row) for row in range(len(rows))]
        return {"prefill_s": first_s - started_s, "decode_s": perf_counter() - first_s}

    def _prompt(self, context: Any, sequence: int, tokens: list[int]) -> int:
        last = len(tokens) - 1
        self._decode(context, [(t, i, sequence, i == last) for i, t in enumerate(tokens)])
        return self._pick(context, last)

    def _decode(self, context: Any, rows: list[tuple[int, int, int, bool]]) -> None:
        batch = self._batch
        batch.n_tokens = len(rows)
        for row, (token, position, sequence, is_wanted) in enumerate(rows):
            batch.token[row], batch.pos[row] = token, position
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, sequence
            batch.logits[row] = is_wanted
        if llama_cpp.llama_decode(context, batch):
            raise SystemExit("llama.cpp can't compute this step")

    def _pick(self, context: Any, row: int) -> int:
        logits = llama_cpp.llama_get_logits_ith(context, row)
        return int(np.ctypeslib.as_array(logits, (self._vocabulary,)).argmax())

    def _context(self, ubatch: int) -> Any:
        if ubatch not in self._contexts:
            params = llama_cpp.llama_context_default_params()
            params.n_ctx, params.n_batch, params.n_ubatch = CONTEXT, BATCH, ubatch
            params.n_threads = params.n_threads_batch = self._threads
            params.n_seq_max, params.kv_unified = SEQUENCES, True
            self._contexts[ubatch] = llama_cpp.llama_init_from_model(self._model, params)
        return self._contexts[ubatch]


def main() -> None:
    """Answer lines until there are no more."""
    llama_cpp.llama_log_set(QUIET, None)
    llama_cpp.llama_backend_init()
    path, what, *more = sys.argv[1:]
    if more:
        quantize(path, str(Path(more[0])))
        return
    contender = Contender(path, int(what))
    print(json.dumps({"build": llama_cpp.llama_print_system_info().decode()}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(contender.answer(**asked)), flush=True)


if __name__ == "__main__":
    main()
