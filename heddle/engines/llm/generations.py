"""The decodes under way: the tokens that steps draw for them become text and results."""

from collections.abc import Sequence as Items
from typing import Protocol

from heddle.core.commands import Admit
from heddle.core.frames import Progress
from heddle.core.payloads import DecodePayload
from heddle.core.results import FinishReason, Generated, KvTransfer
from heddle.costs.step_report import StepReport
from heddle.engines.llm.constrained.constraining import Constraining
from heddle.engines.llm.decode import Decode, Output, TextStreamLike
from heddle.engines.llm.draft import Draft
from heddle.engines.llm.requests import refusal
from heddle.engines.llm.scheduler import Scheduler
from heddle.engines.llm.sequence import Sequence
from heddle.engines.llm.sequence_table import SequenceTable
from heddle.engines.llm.step_plan import Slice


class TextDecoder(Protocol):
    """Makes a text stream for each generation."""

    def stream(self, stop: tuple[str, ...]) -> TextStreamLike:
        """Return a new stream that ends at any of these strings."""
        ...


class Generations:
    """Starts decodes and takes the tokens that are drawn for them, until each ends or pauses.

    Args:
        sequences: what decodes continue.
        scheduler: gets to know of each sequence that has more to compute.
        report: takes progress and results.
        decoder: turns tokens into text.
        constraining: gives decodes their grammars.
        eos_ids: tokens that end a text.

    Mutates: the decodes and their sequences' tokens; a decode that ends leaves its sequence.
    """

    def __init__(
        self,
        sequences: SequenceTable,
        scheduler: Scheduler,
        report: StepReport,
        decoder: TextDecoder,
        constraining: Constraining,
        eos_ids: frozenset[int],
    ) -> None:
        self._sequences = sequences
        self._scheduler = scheduler
        self._report = report
        self._decoder = decoder
        self._constraining = constraining
        self._eos_ids = eos_ids
        self._context_tokens_max = scheduler.limits.context_tokens_max

    def admit(self, command: Admit, payload: DecodePayload, transfer: KvTransfer | None) -> None:
        """Have a decode continue its prompt; fail it where that can't be done.

        `transfer` says how the prompt came from another lane, if it did.
        """
        task_id = command.task.task_id
        sequence = self._sequences.to_continue(task_id, payload.prefill_task)
        if sequence is None:
            return
        known = 0 if sequence.has_pending else sequence.num_prompt_tokens
        problem = refusal(payload, known) or self._constraining.refusal(payload.sampling)
        if problem is not None:
            self._report.failed(task_id, problem, is_input=True)
            self._sequences.settle(sequence)
            return
        decode = Decode(
            task_id,
            payload.sampling,
            command.report_every,
            Output(self._decoder.stream(payload.sampling.stop)),
            payload.pause,
            transfer=transfer,
            draft=Draft(payload.draft),
        )
        self._begin(sequence, decode, payload)

    def constrained(self, sequence: Sequence) -> None:
        """Go on with a sequence that waits for no grammar any more; fail its decode without one."""
        if sequence.decode is not None and sequence.decode.problem:
            self._refuse_constraint(sequence, sequence.decode)
        else:
            self._scheduler.settle(sequence)

    def take(self, part: Slice, drawn: Items[tuple[int, float]]) -> None:
        """Take the next token; and the one behind it, as long as the draft has foreseen each.

        Args:
            part: the slice of a step that draws.
            drawn: token and probability for its last known position and each drafted one.
        """
        sequence, decode = part.sequence, part.sequence.decode
        if decode is None:
            return
        if decode.problem:
            self._refuse_constraint(sequence, decode)
            return
        decode.draft.offered += len(part.draft)
        for number, (token, probability) in enumerate(drawn):
            self._take_token(sequence, decode, token, probability)
            if sequence.decode is not decode or number == len(part.draft):
                return
            is_right = token == part.draft[number]
            decode.draft.judge(is_right=is_right)
            if not is_right:
                return
            self._scheduler.accept(sequence)

    def _begin(self, sequence: Sequence, decode: Decode, payload: DecodePayload) -> None:
        if len(sequence.token_ids) > sequence.num_prompt_tokens:  # an earlier decode went on
            self._scheduler.set_tokens(sequence, sequence.token_ids[: sequence.num_prompt_tokens])
        is_in = sequence.fusing is None and sequence.num_remaining_tokens == 0
        if is_in and not sequence.has_pending:
            # The first token needs the logits of the prompt's last one: compute that one again.
            self._scheduler.kv_cache.rewind(sequence, len(sequence.token_ids) - 1)
        written = sequence.token_ids[len(sequence.token_ids) - payload.continues :]
        decode.take_over(written, payload.resumes)
        self._sequences.continue_by(sequence, decode)
        self._constraining.begin(sequence)
        self._scheduler.settle(sequence)

    def _refuse_constraint(self, sequence: Sequence, decode: Decode) -> None:
        """Fail a decode whose text can't get its form, and no other."""
        self._sequences.fail_decode(sequence, f"constraint: {decode.problem}", is_input=True)

    def _take_token(
        self, sequence: Sequence, decode: Decode, token: int, probability: float
    ) -> None:
        """Take a token, and finish the decode where it ends: in doubt, by a stop, or by length."""
        if decode.doubts(probability):
            self._finish(sequence, decode, FinishReason.LOW_CONFIDENCE)
            return
        if token in self._eos_ids and not decode.sampling.ignore_eos:
            self._finish(sequence, decode, FinishReason.STOP)
            return
        decode.write(token)
        sequence.token_ids.append(token)
        text, is_stopped = decode.output.stream.push((token,))
        decode.output.add(text)
        if is_stopped:
            self._finish(sequence, decode, FinishReason.STOP, rest=False)
        elif decode.is_over:
            self._finish(sequence, decode, FinishReason.STOP)
        elif (
            len(decode.output_ids) >= decode.sampling.max_tokens
            or len(sequence.token_ids) >= self._context_tokens_max
        ):
            self._finish(sequence, decode, FinishReason.LENGTH)
        elif decode.is_at_interval:
            self._finish(sequence, decode, FinishReason.INTERVAL)
        elif decode.is_to_report:
            self._report_tokens(decode)

    def _finish(
        self, sequence: Sequence, decode: Decode, reason: FinishReason, *, rest: bool = True
    ) -> None:
        output = decode.output
        if rest and not reason.is_pause:
            output.add(output.stream.finish())
        if decode.report_every:
            self._report_tokens(decode)
        generated = Generated(
            "".join(output.parts),
            tuple(decode.output_ids),
            reason,
            sequence.report_preemptions(),
            self._context_tokens_max - len(sequence.token_ids),
            decode.transfer,
            drafted=decode.draft.offered,
            accepted=decode.draft.accepted,
        )
        self._report.done(decode.task_id, generated)
        self._sequences.end_decode(sequence)

    def _report_tokens(self, decode: Decode) -> None:
        tokens, output = tuple(decode.output_ids[decode.reported :]), decode.output
        if not tokens and not output.unreported:
            return
        fraction = len(decode.output_ids) / decode.sampling.max_tokens
        self._report.tell(
            Progress(decode.task_id, tokens, output.unreported, fraction=min(1.0, fraction))
        )
        decode.reported = len(decode.output_ids)
        output.unreported = ""
