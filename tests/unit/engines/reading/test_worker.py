"""Real models: the extractor reads as its training does, others as transformers does."""

import gc
import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

from heddle.core.commands import Admit
from heddle.core.dtypes import DTYPES
from heddle.core.errors import ConfigError, InputError
from heddle.core.frames import Done, Failed
from heddle.core.payloads import ExtractPayload, Payload, ReadingText, RerankPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Extracted, Reranked
from heddle.core.tasks import Identity, Task
from heddle.encoder.embedding_table import NAMES, SHARED_TABLES
from heddle.encoder.encoder_directory import EncoderDirectory, default_model_dir
from heddle.engines.embedding.worker import TransformerWorker
from heddle.engines.reading.build import ReadingSettings, build_engine
from heddle.engines.reading.engine import ReadingEngine
from heddle.engines.reading.reading_directory import ReadingDirectory
from heddle.engines.reading.spans import LOWEST_SCORE
from heddle.engines.reading.worker import TransformerReadingWorker
from tests.helpers.extractor_weights import EXTRACTOR, needs_weights
from tests.helpers.small_readers import make_reader

pytestmark = pytest.mark.numerics

PASSAGES = (
    ReadingText("Oslo", "Oslo is the capital of Norway. It was founded around 1040 by a king."),
    ReadingText("", "Lisbon lies at the mouth of the Tagus and has 545,000 inhabitants."),
    ReadingText("SGDClassifier", "max_iter : int, default=1000. The maximum number of passes."),
    ReadingText("Empty", ""),
    ReadingText(
        "Long", "It rained that day. " * 200 + "The bridge opened in 1978. " + "So. " * 300
    ),
    ReadingText(
        "Wide title " * 30, "The Café 'Zürich' opened at 東京 in 1999 🙂, near\x00 the\x1b sea."
    ),
)
QUESTIONS = ("When was Oslo founded?", "What is the default of max_iter?", "When did it open?")


def answer(engine: ReadingEngine, payload: Payload) -> Extracted | Reranked:
    kind = PrimitiveKind.EXTRACTING
    if isinstance(payload, RerankPayload):
        kind = PrimitiveKind.RERANKING
    engine.apply(Admit(Task(1, kind, Identity(1, "n"), payload)))
    while True:
        for event in engine.step(0.0, math.inf).events:
            assert isinstance(event, Done), event
            assert isinstance(event.result, Extracted | Reranked)
            return event.result


def quotes(
    engine: ReadingEngine, question: str, passages: Sequence[ReadingText] = PASSAGES
) -> dict[int, tuple[str, float]]:
    """Return each passage's quote and score."""
    result = answer(engine, ExtractPayload(question, tuple(passages), len(passages)))
    assert isinstance(result, Extracted)
    assert [q.score for q in result.quotes] == sorted(
        (q.score for q in result.quotes), reverse=True
    )
    return {q.passage: (passages[q.passage].text[q.start : q.end], q.score) for q in result.quotes}


@pytest.fixture(scope="module")
def extractor() -> ReadingEngine:
    return build_engine("read", 1, ReadingSettings(str(EXTRACTOR), "float32", "cpu"))


@needs_weights
def test_the_extractor_finds_what_its_trainings_evaluation_finds(
    extractor: ReadingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from extractor_training import measures, precision
    from extractor_training.base_encoder import base_directory
    from extractor_training.export import load_extractor
    from extractor_training.rows import Passage
    from extractor_training.windows import load_tokenizer

    monkeypatch.setattr(precision, "has_bfloat16", lambda: False)
    model, tokenizer = load_extractor(EXTRACTOR), load_tokenizer(base_directory())
    for question in QUESTIONS:
        read = [place for place, passage in enumerate(PASSAGES) if passage.text]
        pairs = [(question, Passage("p", *PASSAGES[place])) for place in read]
        expected = dict(zip(read, measures.quotes(model, tokenizer, pairs), strict=True))
        found = quotes(extractor, question)
        assert found.keys() == expected.keys()
        for place, (text, score) in found.items():
            assert text == expected[place].text
            assert score == pytest.approx(expected[place].score, abs=1e-3)


@needs_weights
def test_the_extractor_answers(extractor: ReadingEngine) -> None:
    first, second, third = (quotes(extractor, question) for question in QUESTIONS)
    assert first[0][0] == "1040" or "1040" in first[0][0]
    assert second[2][0] == "1000"
    assert "1978" in third[4][0]
    assert max(first, key=lambda place: first[place][1]) == 0
    assert first[1][1] < 0 < first[0][1]


@needs_weights
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_quotes_do_not_depend_on_batch_mates(dtype: str) -> None:
    settings = ReadingSettings(str(EXTRACTOR), dtype, "cpu")
    engine = build_engine("read", 1, settings)
    together = quotes(engine, QUESTIONS[0])
    tolerance = 1e-3 if dtype == "float32" else 0.3
    for place, passage in enumerate(PASSAGES):
        alone = quotes(engine, QUESTIONS[0], [passage])
        if not passage.text:
            assert alone == {}
            continue
        assert alone[0][1] == pytest.approx(together[place][1], abs=tolerance)
        if dtype == "float32":
            assert alone[0][0] == together[place][0]


@needs_weights
def test_bfloat16_quotes_what_float32_quotes(extractor: ReadingEngine) -> None:
    half = build_engine("read", 1, ReadingSettings(str(EXTRACTOR), "bfloat16", "cpu"))
    confident, same = 0, 0
    for question in QUESTIONS:
        full, rounded = quotes(extractor, question), quotes(half, question)
        for place, (text, score) in full.items():
            assert rounded[place][1] == pytest.approx(score, abs=0.5)
            if score > 0:
                confident += 1
                same += text == rounded[place][0]
    assert confident >= 3
    assert same >= 0.9 * confident


@needs_weights
def test_reranking_gives_the_scores_of_extracting(extractor: ReadingEngine) -> None:
    extracted = answer(extractor, ExtractPayload(QUESTIONS[1], PASSAGES))
    reranked = answer(extractor, RerankPayload(QUESTIONS[1], PASSAGES))
    assert reranked.scores == pytest.approx(extracted.scores, abs=1e-4)
    assert reranked.scores[3] == LOWEST_SCORE
    assert max(range(len(PASSAGES)), key=reranked.scores.__getitem__) == 2


@needs_weights
@pytest.mark.parametrize(
    "question", ["奥斯陆是什么时候建立的?", "¿Cuándo?" * 200, "When\x00 was\x07 it?", "1040", "🙂"]
)
def test_unusual_questions_are_read(extractor: ReadingEngine, question: str) -> None:
    found = quotes(extractor, question)
    assert found.keys() == {0, 1, 2, 4, 5}
    assert all(math.isfinite(score) and text for text, score in found.values())


@needs_weights
@pytest.mark.parametrize("question", ["", " \n\t ", "\x00\x01"])
def test_a_question_of_nothing_is_refused(extractor: ReadingEngine, question: str) -> None:
    payload = ExtractPayload(question, PASSAGES)
    task = Task(1, PrimitiveKind.EXTRACTING, Identity(1, "n"), payload)
    extractor.apply(Admit(task))
    [event] = extractor.step(0.0, math.inf).events
    assert isinstance(event, Failed)
    assert event.is_input
    assert event.message.startswith("question ")


@needs_weights
def test_a_passage_of_100_000_characters_is_read_to_its_end() -> None:
    worker = TransformerReadingWorker.load(ReadingDirectory.open(EXTRACTOR), "float32", "cpu", 1)
    text = ("one two " * 12_495) + "the very last words"
    [done] = worker.cut("what?", [ReadingText("t", text)])
    assert len(text) > 99_000
    assert not done.is_truncated
    assert done.windows[-1].offsets[-1] == (len(text) - 5, len(text))
    assert max(len(window.ids) for window in done.windows) == 384
    with pytest.raises(InputError, match="question holds"):
        worker.cut("\x00", [ReadingText("t", text)])


@needs_weights
@pytest.mark.parametrize("reads_first", [True, False])
def test_reading_and_embedding_share_one_copy_of_the_embeddings(reads_first: bool) -> None:
    def load_reader() -> TransformerReadingWorker:
        directory = ReadingDirectory.open(EXTRACTOR)
        return TransformerReadingWorker.load(directory, "float32", "cpu", 1)

    def load_embedder() -> TransformerWorker:
        return TransformerWorker.load(EncoderDirectory.open(None), "float32", "cpu", 1)

    gc.collect()
    makers = (load_reader, load_embedder) if reads_first else (load_embedder, load_reader)
    held = [make() for make in makers]
    reader, embedder = held if reads_first else held[::-1]
    table = SHARED_TABLES.table(default_model_dir(), torch.float32, torch.device("cpu"))
    assert reader._reader.encoder.table is table
    for field, name in NAMES.items():
        mine = getattr(embedder._encoder._encoder.table, field)
        assert mine.data_ptr() == getattr(table, field).data_ptr(), name


def padded_scores(folder: Path, question: str, text: str) -> tuple[np.ndarray, list[int]]:
    """Return what transformers gives a pair, and its ids."""
    from tokenizers import Tokenizer

    pair = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(question, text)
    rows = {"input_ids": torch.tensor([pair.ids]), "attention_mask": torch.ones(1, len(pair.ids))}
    if "distil" not in str(folder) and "roberta" not in str(folder):
        rows["token_type_ids"] = torch.tensor([pair.type_ids])
    is_score = "score" in str(folder)
    family = AutoModelForSequenceClassification if is_score else AutoModelForQuestionAnswering
    with torch.inference_mode():
        output = family.from_pretrained(folder).eval()(**rows)
    if is_score:
        return output.logits[0].numpy(), pair.ids
    return torch.stack([output.start_logits[0], output.end_logits[0]]).numpy(), pair.ids


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_a_squad_head_of_others_quotes_against_its_null_span(tmp_path: Path, family: str) -> None:
    folder = make_reader(tmp_path / f"{family}-spans", family, "spans")
    engine = build_engine("read", 1, ReadingSettings(str(folder), "float32", "cpu"))
    assert engine.kinds == {PrimitiveKind.EXTRACTING, PrimitiveKind.RERANKING}
    texts = ["the old harbour opened in 1911", "the river lies at sea", "king"]
    found = quotes(engine, "when did the harbour opened ?", [ReadingText("", t) for t in texts])
    for place, text in enumerate(texts):
        logits, ids = padded_scores(folder, "when did the harbour opened ?", text)
        words = text.split()
        first = len(ids) - 1 - len(words)
        scores = {
            (i, j): logits[0, first + i] + logits[1, first + j] - logits[0, 0] - logits[1, 0]
            for i, j in itertools.combinations_with_replacement(range(len(words)), 2)
        }
        (i, j), best = max(scores.items(), key=lambda item: item[1])
        assert found[place][0] == " ".join(words[i : j + 1])
        assert found[place][1] == pytest.approx(float(best), abs=1e-4)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_cross_encoder_reranks_as_transformers_scores(tmp_path: Path, family: str) -> None:
    folder = make_reader(tmp_path / f"{family}-score", family, "score")
    engine = build_engine("rank", 1, ReadingSettings(str(folder), "float32", "cpu"))
    assert engine.kinds == {PrimitiveKind.RERANKING}
    texts = ["the old harbour", "", "the river lies at sea", "king " * 200]
    result = answer(engine, RerankPayload("who ?", tuple(ReadingText("", t) for t in texts)))
    assert isinstance(result, Reranked)
    assert result.truncated == 1
    for text, score in list(zip(texts, result.scores, strict=True))[:3]:
        logits, _ = padded_scores(folder, "who ?", text)
        assert score == pytest.approx(float(logits[0]), abs=1e-4)
    again = answer(engine, RerankPayload("who ?", (ReadingText("", texts[2]),)))
    assert again.scores[0] == pytest.approx(result.scores[2], abs=1e-4)


def test_a_head_without_weights_is_refused(tmp_path: Path) -> None:
    folder = make_reader(tmp_path / "m", "bert", "none")
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"BertModel"', '"BertForQuestionAnswering"'))
    with pytest.raises(ConfigError, match="no weights for"):
        build_engine("read", 1, ReadingSettings(str(folder), "float32", "cpu"))


def test_unreadable_weights_are_a_clear_error(tmp_path: Path) -> None:
    folder = make_reader(tmp_path / "m", "bert", "spans")
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ConfigError, match="can't be loaded"):
        build_engine("read", 1, ReadingSettings(str(folder), "float32", "cpu"))
