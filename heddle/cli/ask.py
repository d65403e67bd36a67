"""`heddle ask DIR "question"`"""

import argparse
import logging
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from heddle.app.server_config import ServerConfig
from heddle.app.server_writing import server_writing
from heddle.cli.arguments import add_connectors, add_no_server, add_request, request_options
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import add_config, add_index, check_text, choices, server_config
from heddle.cli.output.quote_lines import quote_lines
from heddle.cli.running.client import RunningServer, find_server, request_settings
from heddle.cli.start_server import start_server
from heddle.cli.workflow_source import (
    WORKFLOW_HELP,
    check_connectors,
    drawn_workflow,
    load_connectors,
)
from heddle.core.kv_reuse import PrimedWith
from heddle.core.passages import Passage
from heddle.core.printing.printable import printable_line, printable_text
from heddle.core.quotations import NOT_FOUND
from heddle.core.results import FusedKv, RecallEstimate
from heddle.exporters.stage_times import stage_times
from heddle.runtime.events import (
    Answer,
    NodeFinished,
    NodeStarted,
    RequestEvent,
    RequestFailed,
    Retrieved,
    TokenDelta,
)
from heddle.runtime.receipt import AnswerLookup, Receipt, Speculation, Splice
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.ready_made import READY_MADE
from heddle.workflow.workflow import Workflow
from heddle.workflow.writing import AS_IT_IS, Writing, check_writes, with_writing

log = logging.getLogger(__name__)
SNIPPET_CHARS = 100
# The command names the index itself; priming in the background would end with the answer.
ONE_QUESTION = ("index", "reprime")
DEFAULT_HELP = "default: quote, or oneshot with a model that writes"


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    add_index(parser)
    parser.add_argument("question", metavar='"question"', help="the question")
    workflow = parser.add_argument(
        "--workflow", metavar="NAME", help=f"{WORKFLOW_HELP}; {DEFAULT_HELP}"
    )
    short_help = f"workflow, or FILE.py:NAME; {DEFAULT_HELP}"
    parser.mark(workflow, is_common=True, short_help=short_help)
    add_request(parser)
    add_connectors(parser)
    parser.add_argument(
        "--receipt", action="store_true", help="print counts and times of the request"
    )
    add_no_server(parser)
    add_config(parser, without=ONE_QUESTION)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answer one question, streaming the answer to stdout and the passages after it."""
    check_text(options, "question")
    config = server_config(options, needs=("index",), reprime=False)
    connectors = load_connectors(options.connectors)
    running = _running(options, config)
    default = config.default_workflow if running is None else running.advert.default_workflow
    name = options.workflow or default
    workflow = drawn_workflow(name, None, connectors)
    writing = chosen_writing(options, config, workflow)
    writers = (n for n in workflow.outputs if isinstance(workflow.nodes[n], GenerationNode))
    printer = Printer(frozenset(map(str, writers)), options.receipt)
    others = dict(options.input)
    asked = request_options(options)
    if running is not None:
        for event in running.ask({**_request(options, config, others, writing), **asked}):
            printer.take(event)
        print(f"answered by the running server at {running.url}", file=sys.stderr)
        return 0
    check_connectors(name, connectors)
    with start_server(config) as server:
        app = server.app(workflow)
        # By itself it is called what the command calls it; among others, by its slot.
        inputs = {**others, "query": options.question} if others else options.question
        for event in app.stream(inputs, **asked):
            printer.take(event)
    return 0


def _running(options: argparse.Namespace, config: ServerConfig) -> RunningServer | None:
    """Return the server that runs on the corpus, unless only one of this command's own will do."""
    if not options.server:
        return None
    if options.workflow is not None and options.workflow not in READY_MADE:
        log.info("a workflow of one's own runs in a server of its own")
        return None
    if options.connectors:
        log.info("connectors of one's own are called by a server of its own")
        return None
    return find_server(config, choices(options, ServerConfig))


def _request(
    options: argparse.Namespace,
    config: ServerConfig,
    inputs: Mapping[str, object],
    writing: Writing,
) -> dict[str, object]:
    """Return the body of a question to the running server, without the request's options.

    `inputs` are the workflow's others.
    """
    return {
        "question": options.question,
        "inputs": inputs,
        "workflow": options.workflow,
        **request_settings(config, choices(options, ServerConfig)),
        **{name: value for name, value in asdict(writing).items() if value is not None},
    }


def chosen_writing(
    options: argparse.Namespace, config: ServerConfig, workflow: Workflow
) -> Writing:
    """Return how the answer is to be written; refused before the models load.

    What the environment or a file says is left out where no model writes the answer.

    Raises:
        InputError, ConfigError: the workflow or a value can't be used so.
    """
    writing = server_writing(config)
    chosen = choices(options, ServerConfig).values()
    flagged = {one.field.key for one in chosen if one.source.startswith("--")}
    by_flag = {name: value for name, value in asdict(writing).items() if name in flagged}
    check_writes(workflow, Writing(**by_flag))
    return writing if with_writing(workflow, writing) is not workflow else AS_IT_IS


@dataclass(slots=True)
class Printer:
    """Prints a request's events as they come: its answer to stdout, what else happens to stderr.

    Args:
        output_nodes: the generations that END may follow; only their texts are printed.
    Mutates: `speaker` is the node whose text is being printed, `written` that text.
    """

    output_nodes: frozenset[str]
    with_receipt: bool
    speaker: str | None = None
    written: str = ""

    def take(self, event: RequestEvent) -> None:
        """Print one event.

        Raises:
            HeddleError: what ended the request.
        """
        match event:
            case NodeStarted(node, turn) if node in self.output_nodes and self.speaker is None:
                self._begin(node, turn)
            case TokenDelta(node, text) if node == self.speaker:
                print(printable_text(text), end="", flush=True)
                self.written += text
            case NodeFinished(node) if node == self.speaker:
                print(flush=True)
                self.speaker = None
            case Retrieved(node, passages) if self.output_nodes and node != self.speaker:
                print(f"[{node}: {len(passages)} passages]", file=sys.stderr)
            case RequestFailed(error):
                raise error
            case Answer():
                self._end(event)

    def _begin(self, node: str, turn: int) -> None:
        if self.written:  # set off from the turn before, or from another node's text
            print(f"[{node}, turn {turn + 1}]", file=sys.stderr)
        self.speaker, self.written = node, ""

    def _end(self, answer: Answer) -> None:
        if answer.quotes or answer.nearest or answer.text == NOT_FOUND:
            print("\n".join(quote_lines(answer, is_styled=sys.stdout.isatty())))
        else:
            self._end_text(answer)
        if self.with_receipt:
            print("\n".join(receipt_lines(answer.receipt)))

    def _end_text(self, answer: Answer) -> None:
        if answer.text.strip() != self.written.strip():  # another node had the last word
            print(printable_text(answer.text))
        if self.output_nodes and not answer.text:
            print("(the model wrote nothing)", file=sys.stderr)
        if answer.passages:
            print("\npassages, with their distance to what was searched for:")
        for passage in answer.passages:
            print(passage_line(passage))


def passage_line(passage: Passage) -> str:
    """Return one line that shows where a passage is from and how it begins."""
    text = " ".join(passage.text.split())
    cut = text if len(text) <= SNIPPET_CHARS else text[: SNIPPET_CHARS - 1] + "…"
    where = str(passage.place)
    if where and passage.copies:
        where += f" and {passage.copies} more"
    where = f"{where}  " if where else ""
    return printable_line(f"  {passage.distance:.3f}  {where}{passage.title}: {cut}")


def _fused_line(fused: FusedKv) -> str:
    if fused.computed_whole:
        return f"  chunk KV, {fused.policy}: the prompt was computed whole, {fused.computed_whole}"
    hits = ", ".join(f"{count} {kind}" for kind, count in fused.chunks.items())
    saw = fused.question.value if fused.question is not None else ""
    question = f" (the question {saw}{', ahead' if fused.was_ahead else ''})" if saw else ""
    is_nearest = fused.primed_with is PrimedWith.NEAREST
    primed = "primed with the nearest" if is_nearest else "primed"
    return (
        f"  chunk KV, {fused.policy} at {fused.ratio:.0%}: {hits}, {fused.chunks_primed} {primed}, "
        f"stored with an error of up to {fused.stored_error:.2%}; "
        f"tokens computed anew {fused.tokens_recomputed}, read from shared pages "
        f"{fused.tokens_shared}, in the pool already {fused.tokens_from_device}, from disk "
        f"{fused.tokens_from_disk}, only to choose "
        f"{fused.tokens_surveyed}{question}; loading {fused.loading_s:.3f} s, choosing "
        f"{fused.surveying_s:.3f} s, computing {fused.computing_s:.3f} s"
    )


def _splice_line(splice: Splice) -> str:
    dropped = f", {splice.chunks_dropped} dropped" if splice.chunks_dropped else ""
    return (
        f"  retrieved while decoding {splice.node}, after {splice.at_token} tokens "
        f"({splice.reason.value}, {splice.at_s:.2f} s): {splice.chunks_added} of "
        f"{splice.chunks_found} passages added{dropped}; prompt tokens computed "
        f"{splice.tokens_computed}, reused {splice.tokens_reused}"
    )


def _speculation_line(speculation: Speculation) -> str:
    outcome = "adopted" if speculation.is_adopted else "rolled back"
    return (
        f"  prompt of {speculation.node} begun {speculation.ahead_s:.3f} s before its passages "
        f"were certain, at a probability of {speculation.probability:.2f}: {outcome}"
    )


def _lookup_line(lookup: AnswerLookup) -> str:
    words = f"  answer cache: {lookup.outcome.value.replace('_', ' ')}"
    if lookup.reason:
        return f"{words} ({lookup.reason})"
    if not lookup.question:
        return words
    checked = "its searches were run again" if lookup.is_checked else "the corpus is unchanged"
    return (
        f"{words}: the answer to {lookup.question!r}, kept {lookup.age_s:.0f} s ago, "
        f"cosine {lookup.similarity:.3f}; {checked}"
    )


def _recall_line(estimate: RecallEstimate) -> str:
    return (
        f"  recall of the index's searches: {estimate.recall:.3f}, at least "
        f"{estimate.at_least:.3f} ({estimate.checks} run again exactly)"
    )


def receipt_lines(receipt: Receipt) -> list[str]:
    """Return a receipt as text."""
    lines = [
        f"receipt: {receipt.latency_s:.2f} s, optimizations {receipt.optimizations.value}, "
        f"passes {', '.join(receipt.passes) or 'none'}, numerics {receipt.numerics}",
    ]
    lines += [f"  {one.line(value)}" for one, value in receipt.counted()]
    lines += [f"  written by another server: {remote}" for remote in receipt.remotes]
    lines += [f"  searched by {index}" for index in receipt.searched_by]
    if receipt.recall is not None:
        lines.append(_recall_line(receipt.recall))
    if receipt.answer_lookup is not None:
        lines.append(_lookup_line(receipt.answer_lookup))
    lines += [_fused_line(fused) for fused in receipt.kv_reuse]
    lines += [_splice_line(splice) for splice in receipt.splices]
    lines += [_speculation_line(speculation) for speculation in receipt.speculations]
    lines += [f"  degraded ({one.kind.value}): {one.reason}" for one in receipt.degradations]
    lines += [
        f"  {took.span.name:<28} {took.span.engine:<10} waited {took.waited_s:6.3f} s, "
        f"ran {took.ran_s:6.3f} s"
        for took in stage_times(receipt.spans)
    ]
    return lines
