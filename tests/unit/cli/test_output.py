"""What commands print: passages, receipts, progress, and the files they keep."""

import pytest

from heddle.cli.ask import SNIPPET_CHARS, Printer, passage_line, receipt_lines
from heddle.cli.progress import ProgressLines, status
from heddle.core.degradation import Degradation, DegradationKind
from heddle.core.errors import EngineError
from heddle.core.passages import Passage, Place
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason
from heddle.core.tasks import Optimizations
from heddle.runtime.events import (
    Answer,
    NodeFinished,
    NodeStarted,
    RequestEvent,
    RequestFailed,
    Retrieved,
    TokenDelta,
)
from heddle.runtime.receipt import AnswerLookup, LookupOutcome, ReceiptDraft, Span, Splice

PASSAGE = Passage(1, "a", "Title", "One\n\n  two " + "x" * 200, 0.5)
RECEIPT = ReceiptDraft(
    degradations=[Degradation(DegradationKind.RETRY, "sent again")],
    spans=[Span("answer.decode@0", "answer", PrimitiveKind.DECODING, "llm", 0.1, 0.3, 0.7)],
).close(Optimizations.EXACT, 1.5, "batch-dependent")


def test_a_passage_is_one_line():
    line = passage_line(PASSAGE)
    assert line.startswith("  0.500  Title: One two xxx")
    assert len(line) == len("  0.500  Title: ") + SNIPPET_CHARS
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (Place("docs/a.md", heading=("One",)), "docs/a.md  Title"),
        (Place("b.pdf", 12), "b.pdf:12  Title"),
        (Place("", 12), "Title"),
    ],
)
def test_a_passage_names_file_and_page(place, shown):
    line = passage_line(Passage(1, "a", "Title", "text", 0.5, place=place))
    assert line == f"  0.500  {shown}: text"


def test_a_receipt_tells_times_and_degradations():
    text = "\n".join(receipt_lines(RECEIPT))
    assert "receipt: 1.50 s, optimizations exact, passes none" in text
    assert "degraded (retry): sent again" in text
    assert "waited  0.200 s, ran  0.400 s" in text


@pytest.mark.parametrize(
    ("lookup", "line"),
    [
        (
            AnswerLookup(LookupOutcome.SIMILAR, 0.9731, "Who is it?", 61.2, is_checked=True),
            "  answer cache: similar: the answer to 'Who is it?', kept 61 s ago, cosine 0.973; "
            "its searches were run again",
        ),
        (AnswerLookup(LookupOutcome.OTHER_PASSAGES), "  answer cache: other passages"),
        (AnswerLookup(LookupOutcome.UNUSED, reason="why"), "  answer cache: unused (why)"),
    ],
    ids=lambda value: value.outcome.value if isinstance(value, AnswerLookup) else "",
)
def test_a_receipt_tells_which_earlier_answer_was_taken(lookup, line):
    draft = ReceiptDraft(answer_lookup=lookup)
    assert line in receipt_lines(draft.close(Optimizations.APPROX, 0.1, "exact"))


def test_a_receipt_tells_of_retrievals_while_decoding():
    splice = Splice("answer", 0, FinishReason.LOW_CONFIDENCE, 12, 0.5, 3, 2, 1, 40, 200)
    receipt = ReceiptDraft(splices={"answer.prefilling.1@0": splice}).close(
        Optimizations.EXACT, 1.5, "exact"
    )
    assert (
        "  retrieved while decoding answer, after 12 tokens (low_confidence, 0.50 s): "
        "2 of 3 passages added, 1 dropped; prompt tokens computed 40, reused 200"
    ) in receipt_lines(receipt)


def test_a_retrieval_while_decoding_doesn_t_break_the_line(capsys):
    events = [
        NodeStarted("answer", 0),
        TokenDelta("answer", "A"),
        Retrieved("answer", (PASSAGE,)),
        TokenDelta("answer", "da"),
        NodeFinished("answer", 0),
        Answer("Ada", (), {}, RECEIPT),
    ]
    assert printed(capsys, *events) == ("Ada\n", "")


def printed(capsys, *events: RequestEvent, with_receipt: bool = False) -> tuple[str, str]:
    printer = Printer(frozenset({"answer", "sum up"}), with_receipt)
    for event in events:
        printer.take(event)
    return capsys.readouterr()


def test_only_the_answering_node_is_heard(capsys):
    out, err = printed(
        capsys,
        NodeStarted("imagine", 0),
        TokenDelta("imagine", "draft"),
        Retrieved("find", (PASSAGE,)),
        NodeStarted("answer", 0),
        TokenDelta("answer", "A"),
        TokenDelta("answer", "da"),
        NodeFinished("answer", 0),
        Answer("Ada", (PASSAGE,), {}, RECEIPT),
        with_receipt=True,
    )
    assert out.startswith("Ada\n\npassages, with their distance")
    assert "\n  0.500  Title:" in out
    assert "receipt: " in out
    assert err == "[find: 1 passages]\n"


def test_a_search_is_not_told_of_where_no_model_writes(capsys):
    Printer(frozenset(), False).take(Retrieved("find", (PASSAGE,)))
    assert capsys.readouterr() == ("", "")


def test_the_turns_of_a_loop_stand_on_lines_of_their_own(capsys):
    turns = [
        event
        for turn, text in enumerate(("Ada", "Bo"))
        for event in (
            NodeStarted("answer", turn),
            TokenDelta("answer", f"{text} "),
            NodeFinished("answer", turn),
        )
    ]
    out, err = printed(capsys, *turns, Answer("Bo", (), {}, RECEIPT))
    assert out == "Ada \nBo \n"  # and the last one once, though an answer is stripped
    assert err == "[answer, turn 2]\n"


def test_two_nodes_that_write_at_once_are_not_mixed(capsys):
    out, _ = printed(
        capsys,
        NodeStarted("answer", 0),
        NodeStarted("sum up", 0),
        TokenDelta("answer", "A"),
        TokenDelta("sum up", "In short: "),
        TokenDelta("answer", "da"),
        NodeFinished("answer", 0),
        TokenDelta("sum up", "Ada."),
        NodeFinished("sum up", 0),
        Answer("In short: Ada.", (), {}, RECEIPT),
    )
    assert out == "Ada\nIn short: Ada.\n"


def test_an_answer_that_nothing_streamed_is_printed(capsys):
    assert printed(capsys, Answer("Ada", (), {}, RECEIPT)) == ("Ada\n", "")
    assert printed(capsys, Answer("", (), {}, RECEIPT))[1] == "(the model wrote nothing)\n"


def test_what_ended_a_request_is_raised(capsys):
    with pytest.raises(EngineError):
        printed(capsys, RequestFailed(EngineError("x", engine="e", request_ids=(1,))))


def test_progress_as_lines_is_brief(capsys):
    with ProgressLines() as progress:
        for done in range(1001):
            progress.update("embedding", done, 1000)
        progress.say("[done] " + "x" * 200)
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "embedding: 0/1000"
    assert err[-2:] == ["embedding: 1000/1000", "[done] " + "x" * 200]  # never cut
    assert len(err) < 15


def test_a_status_is_for_terminals_only(capsys):
    with status("loading"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_receipt_tells_of_prompts_from_another_lane():
    moved = ReceiptDraft(kv_transfers=2, kv_transfer_bytes=3_145_728, kv_transfer_s=0.0131)
    text = receipt_lines(moved.close(Optimizations.EXACT, 1.0, "exact"))
    assert "  prompts that one LLM lane computed and another decoded: 2" in text
    assert "  KV that went from one LLM lane to another: 3,145,728 bytes" in text
    assert any(line.endswith(": 0.013 s") for line in text)
    assert not any("LLM lane" in line for line in receipt_lines(RECEIPT)), "what is 0 is left out"
