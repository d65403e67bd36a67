"""`heddle chat DIR`"""

import argparse
import io
import logging
import re
import sys
from collections.abc import Iterator
from typing import Final

from heddle.app.chat.conversation import Conversation
from heddle.app.chat.follow_up import rewrite_workflow
from heddle.app.server_config import ServerConfig
from heddle.cli.arguments import (
    add_connectors,
    add_documents,
    add_no_server,
    add_scope,
    add_topk,
    document_options,
    scope_options,
)
from heddle.cli.ask import DEFAULT_HELP, ONE_QUESTION, Printer, chosen_writing
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import add_config, add_index, choices, server_config
from heddle.cli.running.client import RunningServer, find_server, request_settings
from heddle.cli.start_server import start_server
from heddle.cli.workflow_source import (
    WORKFLOW_HELP,
    check_connectors,
    drawn_workflow,
    load_connectors,
)
from heddle.core.errors import HeddleError
from heddle.runtime.events import RequestEvent
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.ready_made import READY_MADE
from heddle.workflow.workflow import Workflow

PROMPT: Final = "> "
NEW: Final = "/new"
LEAVE: Final = ("/quit", "/exit")
_COMMAND: Final = re.compile(r"/\w*")  # one word: a path or an option has more than that
COMMANDS_HELP: Final = "/new forgets what was said; /quit or Ctrl-D leaves"
GREETING: Final = f"Ask about the documents. {COMMANDS_HELP}."

log = logging.getLogger(__name__)


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    add_index(parser)
    workflow = parser.add_argument(
        "--workflow", metavar="NAME", help=f"{WORKFLOW_HELP}; {DEFAULT_HELP}"
    )
    short_help = f"workflow, or FILE.py:NAME; {DEFAULT_HELP}"
    parser.mark(workflow, is_common=True, short_help=short_help)
    add_topk(parser)
    add_scope(parser)
    add_documents(parser)
    add_connectors(parser)
    add_no_server(parser)
    add_config(parser, without=ONE_QUESTION)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answer questions one after another, until the input ends; errors end one answer only."""
    config = server_config(options, needs=("index",), reprime=False)
    name = options.workflow or config.default_workflow
    connectors = load_connectors(options.connectors)
    workflow = drawn_workflow(name, None, connectors)
    chosen_writing(options, config, workflow)  # refuses a prompt before the models load
    running = _running(options, config)
    if running is not None:
        print(f"answered by the running server at {running.url}", file=sys.stderr)
        _talk(_through(running, options, config), workflow)
        return 0
    check_connectors(name, connectors)
    asked = {"topk": options.topk, **document_options(options), **scope_options(options)}
    with start_server(config) as server:
        app = server.app(workflow)
        rewriting = None if config.llm is None else server.app(rewrite_workflow())
        conversation = Conversation(
            lambda question: app.stream(question, **asked),
            None if rewriting is None else lambda inputs: rewriting.invoke(inputs).text,
        )
        _talk(conversation, workflow)
    return 0


def _running(options: argparse.Namespace, config: ServerConfig) -> RunningServer | None:
    """Return the server that runs on the corpus, if it can do all that this chat needs."""
    if not options.server:
        return None
    if options.workflow not in (None, *READY_MADE) or options.connectors:
        log.info("a workflow or connectors of one's own run in a server of its own")
        return None
    if config.llm is not None:
        log.info("a model that rewrites questions runs in a server of its own")
        return None
    running = find_server(config, choices(options, ServerConfig))
    if running is None or running.advert.settings["generator"] == str(config.generator):
        return running
    # Without a score nothing says whether a question can be understood alone.
    log.warning(
        "the running server isn't asked, and one is started: it answers with %s, and a chat "
        "without --model needs the extractor's scores",
        running.advert.settings["generator"],
    )
    return None


def _through(
    running: RunningServer, options: argparse.Namespace, config: ServerConfig
) -> Conversation:
    body = {
        "workflow": options.workflow,
        "topk": options.topk,
        **document_options(options),
        **scope_options(options),
        **request_settings(config, choices(options, ServerConfig)),
    }
    return Conversation(lambda question: running.ask({**body, "question": question}))


def _talk(conversation: Conversation, workflow: Workflow) -> None:
    writers = frozenset(
        str(key) for key in workflow.outputs if isinstance(workflow.nodes[key], GenerationNode)
    )
    if sys.stdin.isatty():
        print(GREETING, file=sys.stderr)
    for line in _lines():
        question = line.strip()
        if question in LEAVE:
            return
        if question == NEW:
            conversation.forget()
        elif _COMMAND.fullmatch(question):
            print(f"error: there is no {question}; {COMMANDS_HELP}", file=sys.stderr)
        elif question:
            _answer(conversation.say(question), Printer(writers, with_receipt=False))
            print(flush=True)


def _answer(events: Iterator[RequestEvent], printer: Printer) -> None:
    """Print an answer; Ctrl-C ends it alone."""
    try:
        for event in events:
            printer.take(event)
    except KeyboardInterrupt:
        print("(cancelled)", file=sys.stderr)
    except HeddleError as error:
        print(f"error: {error}", file=sys.stderr)
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()  # cancels the request


def _lines() -> Iterator[str]:
    """Yield what is typed, or piped in, line by line."""
    if isinstance(sys.stdin, io.TextIOWrapper):  # of a line that is no text its answer says so
        sys.stdin.reconfigure(errors="surrogateescape")
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    while True:
        try:
            yield input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return
