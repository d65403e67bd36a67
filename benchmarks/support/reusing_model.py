"""A model in this process that answers questions with stored chunk KV, many at once."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from benchmarks.support.engine_driver import EngineDriver
from heddle.app.models.adapted import MULTIHOP
from heddle.app.models.model_source import model_directory
from heddle.app.models.smollm2 import (
    AFTER_QUESTION,
    BEFORE_PASSAGES,
    BEFORE_QUESTION,
    SMOLLM2,
)
from heddle.core.dtypes import WHOLE
from heddle.core.kv_reuse import KvReuse, PrimedWith
from heddle.core.passages import Passage
from heddle.core.payloads import (
    DecodePayload,
    PrefillPayload,
    PrimePayload,
    Sampling,
    Segment,
    SegmentRole,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Generated, Prefilled
from heddle.core.tasks import Optimizations
from heddle.engines.llm.build import LlmSettings, build_engine
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.evals.question import EvalQuestion
from heddle.kv.page_store import KvBlock

# Twice what runs at once, so that the engine never waits for us.
SEQUENCES_MAX: Final = 16
ANSWER_TOKENS: Final = 32
IN_FLIGHT_MAX: Final = 32
PRIMING_STEP_S: Final = 2.0  # as `heddle index --prime` has it


@dataclass(frozen=True, slots=True)
class PromptForm:
    """The words around passages and question; `has_chat_frame` False: a plain text to go on with.

    `stop` ends an answer.
    """

    head: str
    before_question: str
    after_question: str = ""
    has_chat_frame: bool = True
    stop: tuple[str, ...] = ()


# The reader's own prompt, which it was trained on word for word.
PRESET: Final = PromptForm("Answer the question from the notes.\n\n", "Question: ")
# A small pre-trained model answers in whole sentences unless it is shown what is wanted.
EXAMPLES: Final = PromptForm(
    """Answer the question from the notes.

## Oak Street
Oak Street is a street in Elmford. It was built in 1931 by Anna Reed.

Question: Who built Oak Street?
Answer: Anna Reed

## The Grey Cat
The Grey Cat is a novel by Tom Hill.

## Tom Hill
Tom Hill was a writer. He was born in Leeds in 1902.

Question: Where was the author of The Grey Cat born?
Answer: Leeds

## Vera (film)
Vera is a film of 1988.

## Bold River
Bold River is a film of 1979.

Question: Are Vera and Bold River both films?
Answer: yes

""",
    "Question: ",
    "\nAnswer:",
    has_chat_frame=False,
    stop=("\n",),
)
# The multi-hop adapter was trained with SmolLM2's own prompt, word for word.
TRAINED: Final = PromptForm(BEFORE_PASSAGES, BEFORE_QUESTION, AFTER_QUESTION, stop=("\n",))
FORMS: Final = {SMOLLM2: EXAMPLES, MULTIHOP: TRAINED}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and the tokens of its prompt: all, those computed for good, those only surveyed.

    `tokens_surveyed` went through the model, or its first layers, to find out which to compute.
    """

    question: EvalQuestion
    text: str
    prompt_tokens: int
    tokens_computed: int
    tokens_surveyed: int


@dataclass(frozen=True, slots=True, eq=False)
class PromptKv:
    """The KV of a prompt, and where its chunks lie: spans [start, stop) of positions.

    Shapes: block.keys and block.values [layers, kv_heads, tokens, head_dim].
    """

    block: KvBlock
    chunks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Prompts:
    """How a model is asked."""

    directory: Path
    tokenizer: PromptTokenizer
    form: PromptForm

    @classmethod
    def of(cls, model: str) -> "Prompts":
        """Return the prompts of a model; `model` as `--model` of other commands."""
        directory = model_directory(model)
        tokenizer = PromptTokenizer.from_directory(directory)
        return cls(directory, tokenizer, FORMS.get(model, PRESET))

    def of_question(self, question: EvalQuestion) -> tuple[Segment, ...]:
        """Return the prompt of a question and its passages."""
        form = self.form
        text = question.question + form.after_question
        segments = self.tokenizer.encode_prompt(
            (form.head, *(question.passages or ()), form.before_question, text)
        )
        return segments if form.has_chat_frame else segments[1:-1]

    def of_passages(self, passages: Sequence[Passage]) -> tuple[Segment, ...]:
        """Return the start of a prompt that shows these passages, up to the last one's end."""
        segments = self.tokenizer.encode_prompt((self.form.head, *passages))
        return segments[0 if self.form.has_chat_frame else 1 : -1]

    def fit(self, question: EvalQuestion) -> bool:
        """Whether the model's context holds a question, its passages and an answer."""
        tokens = sum(len(segment.token_ids or ()) for segment in self.of_question(question))
        return tokens + ANSWER_TOKENS <= self.tokenizer.context_tokens_max


class ReusingModel:
    """An engine in this process, its chunk KV in a folder, and the prompts it is asked with."""

    def __init__(
        self, prompts: Prompts, folder: Path, weights: str = WHOLE, dtype: str = "auto"
    ) -> None:
        self._prompts = prompts
        settings = LlmSettings(
            prompts.directory,
            dtype=dtype,
            weights=weights,
            max_num_seqs=SEQUENCES_MAX,
            max_num_batched_tokens=2048,
            kv_bytes=2 << 30,
            chunk_kv_bytes=6 << 30,
            chunk_kv_dir=folder,
            chunk_kv_disk_bytes=64 << 30,
            background_step_s=PRIMING_STEP_S,
        )
        self._engine = build_engine("llm", 1, settings)
        self._driver = EngineDriver(self._engine)

    def close(self) -> None:
        """End the engine's threads."""
        self._engine.close()

    def prime(
        self, neighbours: Mapping[Passage, Sequence[Passage]], primed_with: PrimedWith
    ) -> Iterator[tuple[int, int]]:
        """Store the KV of every passage, alone and on top of its neighbours', and theirs alone.

        `primed_with` says which neighbours they are: what requests ask for it by.

        Yields: after each step, how many are done, and how many there are.
        """
        stages = stages_of(neighbours)
        done, total = 0, sum(map(len, stages))
        for shown in stages:
            for ended in self.store(shown, primed_with):
                done += ended
                yield done, total

    def store(
        self,
        shown: Iterable[Sequence[Passage]],
        primed_with: PrimedWith,
        at_once: int = IN_FLIGHT_MAX,
    ) -> Iterator[int]:
        """Store the KV of the last of some passages on top of the others', again and again.

        Yields: after each step, how many more are done.
        """
        payloads = (
            PrimePayload(self._prompts.of_passages(passages), primed_with=primed_with)
            for passages in shown
        )
        open_tasks: set[int] = set()
        while True:
            for payload in islice(payloads, at_once - len(open_tasks)):
                open_tasks.add(self._driver.send(PrimitiveKind.PRIMING, payload))
            if not open_tasks:
                return
            ended = {done for done, _ in self._driver.step()}
            open_tasks -= ended
            yield len(ended)

    def replies(self, questions: Iterable[EvalQuestion], reuse: KvReuse) -> Iterator[Reply]:
        """Answer questions, greedily; give each answer as soon as it is there."""
        waiting = deque(questions)
        prompts: dict[int, tuple[EvalQuestion, Prefilled | None]] = {}
        decodes: dict[int, int] = {}
        while waiting or decodes:
            while waiting and len(decodes) < IN_FLIGHT_MAX:
                question = waiting.popleft()
                prefill = self._prefill(question, reuse)
                sampling = Sampling(ANSWER_TOKENS, stop=self._prompts.form.stop)
                decode = self._driver.send(PrimitiveKind.DECODING, DecodePayload(prefill, sampling))
                prompts[prefill], decodes[decode] = (question, None), prefill
            for task, result in self._driver.step():
                if isinstance(result, Prefilled):
                    prompts[task] = (prompts[task][0], result)
                elif isinstance(result, Generated):
                    question, prefilled = prompts.pop(decodes.pop(task))
                    assert prefilled is not None, "an answer came before its prompt was in"
                    self._driver.release(prefilled.handle)
                    yield Reply(
                        question,
                        result.text,
                        prefilled.tokens,
                        prefilled.tokens_computed,
                        prefilled.tokens_surveyed,
                    )

    def prompt_kv(self, question: EvalQuestion, reuse: KvReuse) -> PromptKv:
        """Return the KV of a question's prompt, as it stands before the first answer token."""
        task = self._prefill(question, reuse)
        prefilled = self._driver.result_of(task)
        assert isinstance(prefilled, Prefilled)
        kv = self._engine.export_sequence(prefilled.handle)
        assert kv is not None, "the lease of a prompt that is in is good"
        self._driver.release(prefilled.handle)
        return PromptKv(KvBlock.unpacked(kv.block), _chunk_spans(kv.segments))

    def _prefill(self, question: EvalQuestion, reuse: KvReuse) -> int:
        # Full attention without the prefix cache: it may hold this very prompt, and has to be
        # computed all the same.
        mode = Optimizations.APPROX if reuse.is_approximate else Optimizations.OFF
        payload = PrefillPayload(self._prompts.of_question(question), reuse=reuse)
        return self._driver.send(PrimitiveKind.PREFILLING, payload, mode)


def stages_of(
    neighbours: Mapping[Passage, Sequence[Passage]],
) -> tuple[list[tuple[Passage, ...]], list[tuple[Passage, ...]]]:
    """Return what passages are shown for their raw KV and then for their primed KV."""
    alone = {p.chunk_id: (p,) for near in neighbours.values() for p in near}
    alone |= {passage.chunk_id: (passage,) for passage in neighbours}
    primed = [(*reversed(near), passage) for passage, near in neighbours.items() if near]
    return list(alone.values()), primed


def _chunk_spans(segments: Sequence[Segment]) -> tuple[tuple[int, int], ...]:
    spans, start = [], 0
    for segment in segments:
        stop = start + len(segment.token_ids or ())
        if segment.role is SegmentRole.CHUNK:
            spans.append((start, stop))
        start = stop
    return tuple(spans)
