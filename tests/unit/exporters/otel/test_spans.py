"""A receipt becomes spans: one for each primitive, those of a generation below its own."""

from heddle.core.primitives import PrimitiveKind as Kind
from heddle.core.results import FinishReason
from heddle.core.tasks import Optimizations
from heddle.exporters.otel.spans import Models, primitive_spans, receipt_attributes
from heddle.runtime.receipt import Receipt, ReceiptDraft, Span

MODELS = Models(generator="smollm2", embedder="minilm", reader="extractor", corpus="town")
SPANS = (
    Span("docs.embedding@0", "docs", Kind.EMBEDDING, "embedding", 0.0, 0.1, 0.2, 1, tokens_read=7),
    Span("docs.searching@0", "docs", Kind.SEARCHING, "vector", 0.2, 0.3, 0.5),
    Span("docs.reranking@0", "docs", Kind.RERANKING, "reading", 0.5, 0.5, 0.6, tokens_read=90),
    Span(
        "answer.prefilling@0",
        "answer",
        Kind.PREFILLING,
        "llm",
        0.6,
        0.7,
        1.0,
        tokens_read=100,
        tokens_reused=40,
    ),
    Span(
        "answer.decoding@0",
        "answer",
        Kind.DECODING,
        "llm",
        0.6,
        0.7,
        2.0,
        tokens_written=30,
        finish_reason=FinishReason.LENGTH,
    ),
    Span("look.tool@0", "look", Kind.TOOL, "tools", 0.0, 0.0, 0.05),
)


def receipt(*spans: Span) -> Receipt:
    draft = ReceiptDraft(prompt_tokens=100, generated_tokens=30, spans=list(spans))
    return draft.close(Optimizations.EXACT, 2.0, "exact")


def test_each_primitive_has_a_span_with_its_model_and_its_tokens() -> None:
    tool, embedding, search, rerank, generation = primitive_spans(receipt(*SPANS), MODELS)
    assert [one.name for one in (tool, embedding, search, rerank, generation)] == [
        "execute_tool look",
        "embeddings minilm",
        "retrieval town",
        "rerank extractor",
        "chat smollm2",
    ]
    assert (embedding.start_s, embedding.end_s) == (0.1, 0.2)
    assert embedding.attributes["gen_ai.usage.input_tokens"] == 7
    assert abs(embedding.attributes["heddle.waited_s"] - 0.1) < 1e-9
    assert search.attributes["gen_ai.data_source.id"] == "town"
    assert rerank.attributes["gen_ai.request.model"] == "extractor"
    assert rerank.attributes["gen_ai.operation.name"] == "rerank"


def test_a_generation_has_the_tokens_of_its_parts_and_why_it_ended() -> None:
    [generation] = primitive_spans(receipt(*SPANS[3:5]), MODELS)
    assert generation.attributes["gen_ai.operation.name"] == "chat"
    assert generation.attributes["gen_ai.usage.input_tokens"] == 100
    assert generation.attributes["gen_ai.usage.cache_read.input_tokens"] == 40
    assert generation.attributes["gen_ai.usage.output_tokens"] == 30
    assert generation.attributes["gen_ai.response.finish_reasons"] == ["length"]
    prefill, decode = generation.children
    assert (generation.start_s, generation.end_s) == (0.7, 2.0)
    assert (prefill.start_s, prefill.end_s) == (0.7, 1.0)
    assert (decode.name, decode.start_s) == ("decoding", 1.0)


def test_two_turns_of_a_node_are_two_generations() -> None:
    turns = [
        Span(f"a.decoding@{turn}", "a", Kind.DECODING, "llm", turn, turn, turn + 1.0)
        for turn in (0, 1)
    ]
    assert len(primitive_spans(receipt(*turns), MODELS)) == 2


def test_a_model_of_another_server_is_named_with_its_address() -> None:
    remote = Span(
        "a.decoding@0",
        "a",
        Kind.DECODING,
        "remote",
        0.0,
        0.0,
        1.0,
        tokens_read=9,
        tokens_written=3,
        finish_reason=FinishReason.STOP,
        remote="qwen at http://127.0.0.1:8000/v1",
    )
    [generation] = primitive_spans(receipt(remote), Models())
    assert generation.name == "chat qwen"
    assert generation.attributes["server.address"] == "127.0.0.1"
    assert generation.attributes["server.port"] == 8000
    assert generation.attributes["gen_ai.usage.input_tokens"] == 9


def test_a_request_has_the_sums() -> None:
    about = receipt_attributes(receipt(*SPANS))
    assert about["gen_ai.usage.output_tokens"] == 30
    assert about["heddle.degradations"] == 0
