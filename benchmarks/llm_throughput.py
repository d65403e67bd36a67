"""Tokens per second of the LLM engine beside transformers, on the same weights.

Contenders, all with 16 slots, the same random-weight Llama (12 layers of 768), fp32 on the CPU
(bfloat16 on CUDA) and the same threads:

* heddle: the LLM engine (continuous batching, chunked prefill, paged KV);
* generate: `model.generate` of transformers in arrival-order batches of 16, left-padded; each
  batch runs to its longest answer;
* hf_continuous: transformers' continuous batching with sdpa and each request's own length; its
  step takes up to `HF_BATCH_TOKENS` tokens, the best for it of 128, 256 and 512.

Requests: lengths from the first rows of trace_azure_conv, at most 512 in and 256 out, all there
at the start; random token ids; no early stop. Throughput counts the tokens asked for, so what
`generate` computes beyond a request's length counts for nothing. Each run of a contender is a
process of its own, timed after loading and a short warm-up; repetitions are interleaved; the
figures are medians. `cpu_seconds` is the processor time of the same span, over all threads.

All processes run with OMP_WAIT_POLICY=PASSIVE: on a shared machine a waiting thread that spins
holds the core that the thread it waits for needs (measured here, two threads beside one other
process: a decode step of 2.9 s instead of 0.2 s).
"""

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch
import transformers
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM

from benchmarks.llm_parity import NoText
from benchmarks.support.data import rows as data_rows
from heddle.core.commands import Admit
from heddle.core.errors import InternalError
from heddle.core.frames import Done, Failed
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling, Segment
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Generated
from heddle.core.tasks import Identity, Task
from heddle.engines.llm.build import LlmSettings, assemble

SLOTS = 16
STEP_TOKENS = 512
HF_BATCH_TOKENS = 512
TRACE = "trace_azure_conv"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run; the bar is decided by the full size."""

    requests: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    in_max: int
    out_max: int
    repetitions: int


FULL = Sizes(64, 12, 768, 12, 12, 2048, 32000, 512, 256, 1)
QUICK = Sizes(32, 4, 256, 4, 4, 688, 4096, 256, 64, 1)


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its prompt and how many tokens it wants."""

    prompt: list[int]
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Timing:
    """One run of one contender: its times, number type, device and threads."""

    seconds: float
    cpu_seconds: float
    dtype: str
    device: str
    threads: int


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run all contenders; headline x_generate and x_hf_continuous (heddle's tokens/s over theirs).

    Raises: InputError: the trace is not in the data folder.
    """
    sizes = QUICK if quick else FULL
    requests = _requests(sizes, seed)
    runs: dict[str, list[Timing]] = {name: [] for name in CONTENDERS}
    for _ in range(sizes.repetitions):
        for name in CONTENDERS:
            runs[name].append(_run_apart(name, quick, seed))
            print(f"{name}: {runs[name][-1].seconds:.1f} s", file=sys.stderr, flush=True)
    tokens = sum(request.tokens_out for request in requests)
    median = {name: statistics.median(t.seconds for t in runs[name]) for name in CONTENDERS}
    cpu = {name: statistics.median(t.cpu_seconds for t in runs[name]) for name in CONTENDERS}
    rows = [
        {
            "contender": name,
            "seconds": round(median[name], 3),
            "tokens_per_s": round(tokens / median[name], 2),
            "x_heddle": round(median[name] / median["heddle"], 3),
            "cpu_seconds": round(cpu[name], 3),
            "x_heddle_cpu": round(cpu[name] / cpu["heddle"], 3),
            "all_seconds": [round(timing.seconds, 3) for timing in runs[name]],
        }
        for name in CONTENDERS
    ]
    return {
        "settings": {
            **asdict(sizes),
            "slots": SLOTS,
            "max_num_batched_tokens": STEP_TOKENS,
            "tokens_in": sum(len(request.prompt) for request in requests),
            "tokens_out": tokens,
            "dtype": runs["heddle"][0].dtype,
            "device": runs["heddle"][0].device,
            "threads": runs["heddle"][0].threads,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "seed": seed,
        },
        "rows": rows,
        "headline": {
            "x_generate": round(median["generate"] / median["heddle"], 3),
            "x_hf_continuous": round(median["hf_continuous"] / median["heddle"], 3),
        },
    }


def _requests(sizes: Sizes, seed: int) -> list[Request]:
    generator = torch.Generator().manual_seed(seed)
    requests = []
    for row in islice(data_rows(TRACE), sizes.requests):
        length = min(row["in"], sizes.in_max)
        ids = torch.randint(3, sizes.vocabulary, (length,), generator=generator)
        requests.append(Request(ids.tolist(), min(row["out"], sizes.out_max)))
    return requests


def _run_apart(contender: str, quick: bool, seed: int) -> Timing:
    """Run one contender in a process of its own."""
    command = [sys.executable, "-m", __name__, contender, str(int(quick)), str(seed)]
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InternalError(f"{contender} failed: {done.stderr[-2000:]}")
    return Timing(**json.loads(done.stdout.splitlines()[-1]))


def _run_here(contender: str, quick: bool, seed: int) -> Timing:
    sizes = QUICK if quick else FULL
    requests = _requests(sizes, seed)
    model = _model(sizes, seed)
    run_contender = CONTENDERS[contender]
    run_contender(model, [Request(r.prompt[:16], 2) for r in requests[:2]])
    cpu_started = time.process_time()
    seconds = run_contender(model, requests)
    return Timing(
        seconds,
        time.process_time() - cpu_started,
        str(model.dtype),
        str(model.device),
        torch.get_num_threads(),
    )


def _model(sizes: Sizes, seed: int) -> LlamaForCausalLM:
    """Return the model; equal seeds give equal weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        intermediate_size=sizes.intermediate,
        vocab_size=sizes.vocabulary,
        max_position_embeddings=2048,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    on_cuda = torch.cuda.is_available()
    model = LlamaForCausalLM(config).eval()
    return model.to("cuda", torch.bfloat16) if on_cuda else model


def _heddle(model: LlamaForCausalLM, requests: list[Request]) -> float:
    """Return the seconds from the first Admit to the last Generated."""
    settings = LlmSettings(
        Path("in memory"),
        max_num_seqs=SLOTS,
        max_num_batched_tokens=STEP_TOKENS,
        kv_bytes=2 << 30,
    )
    engine = assemble("llm", 1, settings, model, "bench", NoText())
    started = time.perf_counter()
    for number, request in enumerate(requests):
        prefill, decode = 2 * number, 2 * number + 1
        payload = PrefillPayload((Segment(tuple(request.prompt)),))
        engine.apply(Admit(_task(prefill, PrimitiveKind.PREFILLING, payload)))
        sampling = Sampling(max_tokens=request.tokens_out, ignore_eos=True)
        continuation = DecodePayload(prefill, sampling)
        engine.apply(Admit(_task(decode, PrimitiveKind.DECODING, continuation), report_every=1))
    tokens = 0
    while engine.has_work:
        for event in engine.step(0.0, float("inf")).events:
            assert not isinstance(event, Failed), event
            if isinstance(event, Done) and isinstance(event.result, Generated):
                tokens += len(event.result.token_ids)
    assert tokens == sum(request.tokens_out for request in requests)
    return time.perf_counter() - started


def _task(task_id: int, kind: PrimitiveKind, payload: PrefillPayload | DecodePayload) -> Task:
    return Task(task_id, kind, Identity(request_id=task_id // 2, node="bench"), payload)


def _generate(model: LlamaForCausalLM, requests: list[Request]) -> float:
    """Return the seconds of all batches, one after another."""
    started = time.perf_counter()
    for start in range(0, len(requests), SLOTS):
        batch = requests[start : start + SLOTS]
        longest = max(len(request.prompt) for request in batch)
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, request in enumerate(batch):
            ids[row, longest - len(request.prompt) :] = torch.tensor(request.prompt)
            mask[row, longest - len(request.prompt) :] = 1
        tokens_out = max(request.tokens_out for request in batch)
        settings = GenerationConfig(
            max_new_tokens=tokens_out, do_sample=False, pad_token_id=0, eos_token_id=None
        )
        with torch.inference_mode():
            out = model.generate(
                ids.to(model.device),
                attention_mask=mask.to(model.device),
                generation_config=settings,
            )
        assert out.shape[1] == longest + tokens_out
    return time.perf_counter() - started


def _hf_continuous(
    model: LlamaForCausalLM, requests: list[Request], batch_tokens: int = HF_BATCH_TOKENS
) -> float:
    """Return the seconds from the first request to the last result; the manager runs already."""
    config = ContinuousBatchingConfig(
        num_blocks=max(64, SLOTS * 4),
        max_batch_tokens=batch_tokens,
        max_requests_per_batch=SLOTS,
    )
    settings = GenerationConfig(
        max_new_tokens=max(request.tokens_out for request in requests),
        do_sample=False,
        pad_token_id=0,
        eos_token_id=-1,
    )
    tokens = 0
    with (
        torch.inference_mode(),
        model.continuous_batching_context_manager(
            generation_config=settings,
            continuous_batching_config=config,
            block=True,
            warmup=False,
        ) as manager,
    ):
        started = time.perf_counter()
        for request in requests:
            manager.add_request(request.prompt, max_new_tokens=request.tokens_out, eos_token_id=-1)
        finished = 0
        while finished < len(requests):
            result = manager.get_result(timeout=1)
            if result is not None and result.is_finished():
                assert result.error is None, result.error
                finished += 1
                tokens += len(result.generated_tokens)
        seconds = time.perf_counter() - started
    assert tokens == sum(request.tokens_out for request in requests)
    return seconds


CONTENDERS = {"heddle": _heddle, "generate": _generate, "hf_continuous": _hf_continuous}

if __name__ == "__main__":
    # `run` starts this module once for each contender and reads the last line.
    timing = _run_here(sys.argv[1], sys.argv[2] == "1", int(sys.argv[3]))
    print(json.dumps(asdict(timing)))
