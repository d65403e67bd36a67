"""A counter is declared once: every face of a receipt takes it from its field."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily

from heddle.app.observe.server_state import ServerState
from heddle.app.observe.tally import Tally
from heddle.cli.ask import receipt_lines
from heddle.cli.running.decode import decoded
from heddle.core.counts import SearchCounts, Unit, counter, counters
from heddle.core.tasks import Optimizations, Priority
from heddle.exporters.otel.spans import receipt_attributes
from heddle.runtime.counters import Counters
from heddle.runtime.events import Answer
from heddle.runtime.receipt import Receipt, ReceiptDraft, RequestCounts
from heddle.server.metrics import request_counters
from heddle.server.page.live import live_json
from heddle.server.wire import answer_json, encode_json
from tools.reference.pages import MODULES, page_text

ROOT = Path(__file__).parents[2]
DECLARED = counters(RequestCounts)
ONES = {one.name: 100 + number for number, one in enumerate(DECLARED)}
# Where counters are shown; two of these have a use of their own for the sums of tokens.
FACES = (
    "heddle/app/observe/tally.py",
    "heddle/server/metrics.py",
    "heddle/server/page/live.py",
    "heddle/cli/ask.py",
    "heddle/cli/output/explained/words.py",
    "heddle/exporters/otel/spans.py",
    "web/src/replies.ts",
    "web/src/receipt.ts",
    "web/src/views/live.ts",
)
SUMS_OF_TOKENS = {"prompt_tokens", "prompt_tokens_reused", "generated_tokens"}


@pytest.fixture(scope="module")
def receipt() -> Receipt:
    return ReceiptDraft(**ONES).close(Optimizations.EXACT, 0.5, "exact")


@pytest.fixture(scope="module")
def tally(receipt: Receipt) -> Tally:
    tally = Tally()
    tally.answered(Priority.NORMAL, receipt)
    return tally


def test_every_number_of_a_receipt_but_its_time_is_a_counter():
    numbers = {one.name for one in fields(Receipt) if one.type in (int, float)} - {"latency_s"}
    assert numbers == set(ONES)
    assert len({one.metric for one in DECLARED}) == len(DECLARED)


def test_json_has_every_counter_and_reads_it_back(receipt: Receipt):
    sent = json.loads(encode_json(answer_json(Answer("", (), {}, receipt))))["receipt"]
    assert {name: sent[name] for name in ONES} == ONES
    assert decoded(Receipt, sent) == receipt


def test_metrics_and_the_page_have_the_sum_of_every_counter(tally: Tally):
    found = {one.name: one for one in request_counters(tally.counts)}
    assert all(isinstance(one, CounterMetricFamily) for one in found.values())
    for one in DECLARED:
        assert found[one.metric].documentation == one.sentence
        assert found[one.metric].samples[0].value == ONES[one.name]
    assert live_json(ServerState({}, {}, 0, tally, Counters()))["counters"] == ONES


def shown_in(receipt: Receipt) -> Iterator[tuple[str, str]]:
    """Yield each text that has a receipt's counters, with its name."""
    yield "heddle ask --receipt", "\n".join(receipt_lines(receipt))
    yield "docs/reference/receipt.md", page_text("receipt.md").lower()
    yield "docs/reference/metrics.md", page_text("metrics.md").lower()
    yield "web/src/counters.ts", "\n".join(MODULES["web/src/counters.ts"]())


def test_texts_and_the_reference_say_what_every_counter_counts(receipt: Receipt):
    lacking = [
        f"{text}: {one.name}"
        for text, shown in shown_in(receipt)
        for one in DECLARED
        if (one.meaning.lower() if text.startswith("docs") else one.meaning) not in shown
    ]
    assert not lacking


def test_a_trace_has_every_counter_that_is_not_0(receipt: Receipt):
    about = receipt_attributes(receipt)
    assert {name: about[f"heddle.{name}"] for name in ONES} == ONES
    empty = receipt_attributes(ReceiptDraft(retries=1).close(Optimizations.EXACT, 0.5, "exact"))
    assert {name for name in ONES if f"heddle.{name}" in empty} == {"retries"}


@pytest.mark.parametrize("face", FACES)
def test_no_face_names_a_counter(face: str):
    text = (ROOT / face).read_text(encoding="utf-8")
    taken = set(re.findall(r"\b(?:receipt|counts|counters)\.(\w+)", text))
    taken |= set(re.findall(r"""["'](\w+)["']""", text))
    assert taken & (set(ONES) - SUMS_OF_TOKENS) == set()


def test_counts_of_shards_and_of_searches_one_after_another_add_up():
    shards = [
        SearchCounts(lists_scanned=3, search_wait_s=0.5),
        SearchCounts(1, 2, search_wait_s=1.5),
    ]
    both = SearchCounts.at_once(shards)
    assert both == SearchCounts(lists_probed=1, lists_scanned=5, search_wait_s=1.5)
    assert SearchCounts.at_once([]) == SearchCounts()
    draft = ReceiptDraft(search_wait_s=0.25)
    draft.add(both)
    draft.add(both)
    assert asdict(draft)["search_wait_s"] == 3.25
    assert (draft.lists_probed, draft.lists_scanned, draft.retries) == (2, 10, 0)


def test_a_counter_says_its_metric_and_its_zero():
    waited, retries = counter("time", unit=Unit.SECONDS), counter("times")
    assert (type(waited.default), type(retries.default)) == (float, int)
    known = {one.name: one.metric for one in DECLARED}
    assert known["retries"] == "heddle_retries"
    assert known["search_wait_s"] == "heddle_pool_wait_seconds"
