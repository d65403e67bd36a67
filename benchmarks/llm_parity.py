"""Logits of the LLM engine beside transformers: eight families, on the CPU, in fp32 or bfloat16.

Who is compared with whom: the logits behind every token that the engine draws (prefill and 32
decoded tokens) with a plain forward of the same transformers model (sdpa, no cache) over the
same tokens. The engine serves four prompts one after another (alone), together (batch), in
chunks of 7 tokens (chunked), with so few pages that sequences are preempted (preempted), and
hands their prefills to a second engine (handover). The models are tiny, with random weights of a
wide spread: parity is a question of wiring, not of size. `max_rel_diff` is the largest absolute
difference over the largest absolute logit of the request; tokens must be the same, too.

--dtype bfloat16: both are compared with the same weights in fp32, layers fused and packed where the
engine would. `x_reference_distance` is how far the engine's logits are from those of fp32, over
how far transformers' in bfloat16 are (Euclidean, all tokens of all requests together); the worst
family's and mode's.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.support.tiny_models import FAMILIES, prompt, tiny_model
from heddle.core.commands import Admit
from heddle.core.errors import InputError
from heddle.core.frames import Done, Failed, Progress
from heddle.core.payloads import (
    DecodePayload,
    PrefillPayload,
    Sampling,
    Segment,
    SequenceKv,
    TransferPayload,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Generated, Prefilled
from heddle.core.tasks import Identity, Task
from heddle.engines.llm.build import LlmSettings, spec_of
from heddle.engines.llm.engine import LlmEngine
from heddle.engines.llm.model.fused_layers import can_fuse, fuse_layers
from heddle.engines.llm.model.packed_linear import can_pack, pack_linears
from heddle.engines.llm.model.worker import TransformersWorker, WorkerClock, kv_shape
from heddle.engines.llm.step_batch import BatchRow

NEW_TOKENS = 32
LENGTHS = (5, 40, 77, 16)
CONTEXT = 144
PAGE_SIZE = 16
PAGES_FEW = 9  # one context of them; the four requests together need 19


@dataclass(frozen=True, slots=True)
class Mode:
    """How large the engine's pool and steps are in a mode."""

    pages: int = 256
    step_tokens: int = 512


MODES: Mapping[str, Mode] = {
    "alone": Mode(),
    "batch": Mode(),
    "chunked": Mode(step_tokens=7),
    "preempted": Mode(pages=PAGES_FEW, step_tokens=50),
    "handover": Mode(),
}


def run(quick: bool, seed: int, dtype: str = "float32") -> dict[str, object]:
    """Run every family in every mode; quick takes two families.

    Headline: max_rel_diff, in bfloat16 x_reference_distance.

    Raises: InputError: the dtype is neither.
    """
    families = ("llama", "glm4") if quick else FAMILIES
    if dtype == "bfloat16":
        return _in_bfloat16(families, seed)
    if dtype != "float32":
        raise InputError(f"dtype {dtype!r} is unknown; use float32 or bfloat16")
    rows: list[dict[str, object]] = []
    worst = 0.0
    for family in families:
        model = tiny_model(family, seed)
        prompts = [prompt(length, seed + n) for n, length in enumerate(LENGTHS)]
        for mode in MODES:
            servings = serve(model, prompts, mode)
            rel_diff = max(s.rel_diff(model) for s in servings)
            worst = max(worst, rel_diff)
            rows.append(
                {
                    "family": family,
                    "mode": mode,
                    "rel_diff": rel_diff,
                    "tokens_equal": all(s.tokens_equal(model) for s in servings),
                    "preemptions": sum(s.preemptions for s in servings),
                }
            )
    return {
        "settings": {
            "families": list(families),
            "prompt_tokens": list(LENGTHS),
            "new_tokens": NEW_TOKENS,
            "dtype": "float32",
            "seed": seed,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "rows": rows,
        "headline": {
            "max_rel_diff": worst,
            "tokens_equal": all(row["tokens_equal"] for row in rows),
        },
    }


def _in_bfloat16(families: Sequence[str], seed: int) -> dict[str, object]:
    rows: list[dict[str, object]] = []
    distances = []
    for family in families:
        model = tiny_model(family, seed).to(torch.bfloat16)
        exact = copy.deepcopy(model).to(torch.float32)
        prompts = [prompt(length, seed + n) for n, length in enumerate(LENGTHS)]
        for mode in MODES:
            servings = serve(model, prompts, mode)
            ours = math.sqrt(sum(served.square_off(exact) for served in servings))
            theirs = math.sqrt(sum(served.square_off(exact, by=model) for served in servings))
            distances.append(ours / theirs)
            rows.append(
                {
                    "family": family,
                    "mode": mode,
                    "distance": round(ours, 4),
                    "transformers_distance": round(theirs, 4),
                    "x_reference_distance": round(ours / theirs, 3),
                }
            )
    return {
        "settings": {
            "families": list(families),
            "prompt_tokens": list(LENGTHS),
            "new_tokens": NEW_TOKENS,
            "dtype": "bfloat16",
            "seed": seed,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "rows": rows,
        "headline": {"x_reference_distance": round(max(distances), 3)},
    }


@dataclass(slots=True)
class Served:
    """One request: its prompt, the tokens drawn, and the logits behind each of them."""

    prompt: tuple[int, ...]
    token_ids: tuple[int, ...] = ()
    preemptions: int = 0
    logits: list[Tensor] = field(default_factory=list)

    def rel_diff(self, model: PreTrainedModel) -> float:
        """Return the largest difference to transformers over the largest logit."""
        expected = self._expected(model)
        got = torch.stack(self.logits)
        assert got.shape == expected.shape, (got.shape, expected.shape)
        return float((got - expected).abs().max() / expected.abs().max())

    def square_off(self, exact: PreTrainedModel, by: PreTrainedModel | None = None) -> float:
        """Return the squared distance of these logits, or of another model's, to the exact ones."""
        found = torch.stack(self.logits) if by is None else self._expected(by)
        return float((found - self._expected(exact)).square().sum())

    def tokens_equal(self, model: PreTrainedModel) -> bool:
        """Whether transformers would have drawn the same tokens."""
        return self.token_ids == tuple(self._expected(model).argmax(-1).tolist())

    def _expected(self, model: PreTrainedModel) -> Tensor:
        whole = torch.tensor([[*self.prompt, *self.token_ids[:-1]]])
        with torch.inference_mode():
            logits: Tensor = model(whole, use_cache=False).logits[0, len(self.prompt) - 1 :]
        return logits.float()


class RecordingWorker(TransformersWorker):
    """Keeps the logits of the last step."""

    last: Tensor

    def logits(self, hidden: Tensor, rows: Sequence[BatchRow]) -> Tensor:
        """Return the logits and keep them."""
        self.last = super().logits(hidden, rows)
        return self.last


class Serving:
    """An engine over a loaded model, and its answers."""

    def __init__(
        self,
        model: PreTrainedModel,
        name: str = "llm",
        mode: Mode = MODES["batch"],
    ) -> None:
        token_bytes = kv_shape(model.config, model.dtype).token_bytes
        settings = LlmSettings(
            Path("in memory"),
            max_num_seqs=4,
            max_num_batched_tokens=mode.step_tokens,
            page_size=PAGE_SIZE,
            kv_bytes=mode.pages * PAGE_SIZE * token_bytes,
            context_tokens_max=CONTEXT,
        )
        spec = spec_of(settings, model, "parity")
        served = copy.deepcopy(model)
        if model.dtype is torch.bfloat16 and can_fuse(served):
            fuse_layers(served)
        if can_pack(served.device, served.dtype):
            pack_linears(served)
        self.worker = RecordingWorker(served, mode.pages * PAGE_SIZE)
        self.engine = LlmEngine(name, 1, self.worker, spec, NoText(), WorkerClock())
        self.served: dict[int, Served] = {}
        self.prefilled: dict[int, Prefilled] = {}
        self.handed_over: dict[int, SequenceKv] = {}

    def prefill(self, number: int, token_ids: tuple[int, ...]) -> None:
        """Admit a request's prompt."""
        payload = PrefillPayload((Segment(token_ids),))
        who = Identity(number, "parity")
        self.engine.apply(Admit(Task(2 * number, PrimitiveKind.PREFILLING, who, payload)))

    def hand_over(self, number: int) -> None:
        """Ask for a request's prompt, for another engine."""
        who = Identity(number, "parity")
        payload = TransferPayload(2 * number)
        self.engine.apply(Admit(Task(2 * number + 1, PrimitiveKind.DECODING, who, payload)))

    def decode(
        self,
        number: int,
        token_ids: tuple[int, ...],
        sampling: Sampling | None = None,
        prompt: SequenceKv | None = None,
        draft: tuple[int, ...] = (),
    ) -> None:
        """Admit a request's generation; greedy unless told otherwise."""
        self.served[number] = Served(token_ids)
        payload = DecodePayload(
            2 * number,
            sampling or Sampling(max_tokens=NEW_TOKENS, ignore_eos=True),
            prompt=prompt,
            draft=draft,
        )
        task = Task(2 * number + 1, PrimitiveKind.DECODING, Identity(number, "parity"), payload)
        self.engine.apply(Admit(task))

    def drain(self) -> None:
        """Step until nothing is left to do; each token's Progress comes in the logits' order."""
        while self.engine.has_work:
            frame = self.engine.step(0.0, float("inf"))
            self.engine.check()
            drawn = [e for e in frame.events if isinstance(e, Progress) and e.token_ids]
            for progress, row in zip(drawn, self.worker.last, strict=True):
                self.served[progress.task_id // 2].logits.append(row.clone())
            for event in frame.events:
                assert not isinstance(event, Failed), event
                if isinstance(event, Done) and isinstance(event.result, Generated):
                    request = self.served[event.task_id // 2]
                    request.token_ids = event.result.token_ids
                    request.preemptions = event.result.preemptions
                elif isinstance(event, Done) and isinstance(event.result, Prefilled):
                    self.prefilled[event.task_id // 2] = event.result
                elif isinstance(event, Done) and isinstance(event.result, SequenceKv):
                    self.handed_over[event.task_id // 2] = event.result


class NoText:
    """A text decoder that makes no text: only tokens are compared."""

    def stream(self, stop: tuple[str, ...]) -> "NoText":
        """Return itself: there is nothing to keep."""
        return self

    def push(self, token_ids: object) -> tuple[str, bool]:
        """Return no text."""
        return "", False

    def finish(self) -> str:
        """Return no text."""
        return ""


def serve(model: PreTrainedModel, prompts: list[tuple[int, ...]], mode: str) -> list[Served]:
    """Serve the prompts in one of the modes."""
    if mode == "handover":
        return _hand_over(model, prompts)
    serving = Serving(model, mode=MODES[mode])
    for number, token_ids in enumerate(prompts):
        serving.prefill(number, token_ids)
        serving.decode(number, token_ids)
        if mode == "alone":
            serving.drain()
    serving.drain()
    return list(serving.served.values())


def _hand_over(model: PreTrainedModel, prompts: list[tuple[int, ...]]) -> list[Served]:
    one, two = Serving(model, "one"), Serving(model, "two")
    for number, token_ids in enumerate(prompts):
        one.prefill(number, token_ids)
        one.hand_over(number)
    one.drain()
    for number, token_ids in enumerate(prompts):
        two.decode(number, token_ids, prompt=one.handed_over[number])
    two.drain()
    return list(two.served.values())
