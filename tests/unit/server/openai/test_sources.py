"""Sources of an answer: cited, and as Markdown that no document can break out of."""

from dataclasses import replace

from heddle.core.passages import Passage, Place
from heddle.core.quotations import Quotation
from heddle.core.results import Quote
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer
from heddle.runtime.receipt import ReceiptDraft
from heddle.server.openai.sources import annotations, sources_block, sources_of

RECEIPT = ReceiptDraft().close(Optimizations.EXACT, 0.5, "exact")
PASSAGE = Passage(
    7, "doc-7", "Rock 7", "A rock. Its keeper is Ada.", place=Place("rocks.pdf", 3, (), 5, 9)
)
QUOTE = Quotation.of(Quote(0, 22, 25, 4.0), PASSAGE)
WRITTEN = Answer("Ada", (PASSAGE,), {}, RECEIPT)
QUOTED = replace(WRITTEN, quotes=(QUOTE,))


def test_a_quote_is_cited_with_its_sentence_and_page():
    [cited] = annotations(sources_of(QUOTED), "Ada")
    assert cited == {
        "type": "url_citation",
        "url_citation": {
            "start_index": 0,
            "end_index": 3,
            "title": "Rock 7",
            "url": "heddle:documents/doc-7#page=3",
        },
        "file_citation": {
            "file_id": "doc-7",
            "filename": "rocks.pdf",
            "index": 0,
            "quote": "Its keeper is Ada.",
            "page": 3,
        },
    }
    assert "rocks.pdf:3" in sources_block(QUOTED)


def test_what_has_an_address_is_cited_by_it():
    passage = replace(PASSAGE, place=Place(), document_id="https://rocks.example/7")
    [cited] = annotations(sources_of(replace(WRITTEN, passages=(passage,))), "Ada")
    assert cited["url_citation"]["url"] == "https://rocks.example/7"


def test_nothing_found_rests_on_nothing_and_lists_the_nearest():
    answer = replace(WRITTEN, text="Not found.", nearest=(QUOTE,))
    assert sources_of(answer) == ()
    assert "**Nearest places**" in sources_block(answer)
    assert sources_block(replace(answer, nearest=(), passages=())) == ""


def test_a_hostile_title_stays_one_line_of_text():
    title = "x](http://evil.example) ![i](http://evil.example/a.png)\n\n# <script>*_`"
    block = sources_block(replace(WRITTEN, passages=(replace(PASSAGE, title=title),)))
    [line] = [one for one in block.splitlines() if one.startswith("1. ")]
    assert block.count("\n1. ") == 1
    for mark in ("](", "![", " <script", "http://"):
        assert mark not in line
    assert "evil.example" in line, "it is shown, letter by letter"
