"""`heddle ask DIR "question"`"""

import argparse
import sys
from pathlib import Path

from heddle.app.server import Server
from heddle.core.passages import Passage
from heddle.runtime.events import (
    Answer,
    NodeStarted,
    RequestEvent,
    RequestFailed,
    Retrieved,
    TokenDelta,
)
from heddle.runtime.receipt import Receipt
from heddle.workflow.presets import PRESETS, preset

SNIPPET_CHARS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="made by `heddle index`")
    parser.add_argument("question", help="what you want to know")
    parser.add_argument("--workflow", default="oneshot", help=f"one of {', '.join(PRESETS)}")
    parser.add_argument("--model", default="reader", metavar="DIR-or-hub-name")
    parser.add_argument("--embedder", metavar="DIR-or-name", help="as used for indexing")
    parser.add_argument("--receipt", action="store_true", help="say what was done for the answer")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answer one question, streaming the answer to stdout and the passages after it."""
    graph = preset(options.workflow).compile()
    with Server(options.model, options.directory, embedder=options.embedder) as server:
        for event in server.app(graph).stream(options.question):
            _show(event, {str(node) for node in graph.outputs}, options.receipt)
    return 0


def _show(event: RequestEvent, output_nodes: set[str], with_receipt: bool) -> None:
    if isinstance(event, TokenDelta) and event.node in output_nodes:
        print(event.text, end="", flush=True)
    elif isinstance(event, NodeStarted) and event.turn and event.node in output_nodes:
        print(f"\n[{event.node}, turn {event.turn + 1}]", file=sys.stderr)
    elif isinstance(event, Retrieved):
        print(f"[{event.node}: {len(event.passages)} passages]", file=sys.stderr)
    elif isinstance(event, RequestFailed):
        raise event.error
    elif isinstance(event, Answer):
        print("\n")
        for passage in event.passages:
            print(passage_line(passage))
        if with_receipt:
            print("\n".join(receipt_lines(event.receipt)))


def passage_line(passage: Passage) -> str:
    """Return one line that shows where a passage is from and how it begins."""
    text = " ".join(passage.text.split())
    cut = text if len(text) <= SNIPPET_CHARS else text[: SNIPPET_CHARS - 1] + "…"
    return f"  {passage.distance:.3f}  {passage.title}: {cut}"


def receipt_lines(receipt: Receipt) -> list[str]:
    """Return a receipt as text."""
    lines = [
        f"receipt: {receipt.latency_s:.2f} s, optimizations {receipt.optimizations.value}, "
        f"passes {', '.join(receipt.passes) or 'none'}, numerics {receipt.numerics}",
        f"  tokens: {receipt.prompt_tokens} prompt ({receipt.prompt_tokens_reused} reused), "
        f"{receipt.generated_tokens} generated, {receipt.preemptions} preemptions",
        f"  clusters scanned: {receipt.lists_scanned} of {receipt.lists_probed} probed; "
        f"texts truncated: {receipt.texts_truncated}; retries: {receipt.retries}",
    ]
    lines += [f"  fallback: {note}" for note in receipt.fallbacks]
    lines += [
        f"  {span.name:<28} {span.engine:<10} waited {span.sent_s - span.ready_s:6.3f} s, "
        f"ran {span.done_s - span.sent_s:6.3f} s"
        for span in receipt.spans
    ]
    return lines
