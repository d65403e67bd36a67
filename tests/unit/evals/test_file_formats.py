"""Files as the papers' data sets are published: small ones in each format, with our own values."""

import json

import pytest

from heddle.core.errors import InputError
from heddle.evals.catalogue import load_dataset
from heddle.evals.row import json_lines
from tests.unit.evals.data_files import real_file, write_document, write_lines

CAPITAL = "What is the capital of Portugal?"
HOTPOT = {
    "_id": "h1",
    "question": CAPITAL,
    "answer": "Lisbon",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Portugal", 0], ["Lisbon", 1], ["Portugal", 1], ["Left out", 0]],
    "context": [
        ["Spain", ["Madrid is its capital."]],
        ["Portugal", ["It is a country.", " Its capital is Lisbon."]],
        ["Lisbon", ["A city. ", "It has a port."]],
    ],
}
MUSIQUE = {
    "id": "2hop__1_2",
    "question": CAPITAL,
    "paragraphs": [
        {"idx": 0, "title": "Spain", "paragraph_text": "Madrid.", "is_supporting": False},
        {"idx": 1, "title": "Portugal", "paragraph_text": "Lisbon.", "is_supporting": True},
    ],
    "question_decomposition": [
        {"id": 1, "question": "which?", "answer": "Lisbon", "paragraph_support_idx": 1}
    ],
    "answer": "Lisbon",
    "answer_aliases": ["Lisboa", "Lisbon"],
    "answerable": True,
}
TRIVIA = {
    "Answer": {
        "Aliases": ["Lisboa", "Lisbon"],
        "HumanAnswers": ["City of Lisbon"],
        "NormalizedAliases": ["lisboa"],
        "Type": "WikipediaEntity",
        "Value": "Lisbon",
    },
    "EntityPages": [{"DocSource": "TagMe", "Filename": "Portugal.txt", "Title": "Portugal"}],
    "Question": CAPITAL,
    "QuestionId": "tc_1",
    "SearchResults": [],
}
MS_MARCO = {
    "query": CAPITAL,
    "query_id": 19,
    "query_type": "LOCATION",
    "answers": ["Lisbon"],
    "wellFormedAnswers": ["The capital is Lisbon."],
    "passages": [
        {"is_selected": 0, "passage_text": "Madrid.", "url": "http://a.example/"},
        {"is_selected": 1, "passage_text": "Lisbon.", "url": "http://b.example/"},
    ],
}
TOKENS = ["<P>", "Madrid", ".", "</P>", "<P>", "Its", "capital", "is", "Lisbon", ".", "</P>"]
LISBON = {"start_token": 8, "end_token": 9}
NO_LONG = {"start_token": -1, "end_token": -1, "candidate_index": -1}
SECOND = {"start_token": 4, "end_token": 11, "candidate_index": 1}
NATURAL = {
    "example_id": 7,
    "question_text": "what is the capital of portugal",
    "document_text": " ".join(TOKENS),
    "long_answer_candidates": [
        {"start_token": 0, "end_token": 4, "top_level": True},
        {"start_token": 4, "end_token": 11, "top_level": True},
        {"start_token": 5, "end_token": 10, "top_level": False},
    ],
    "annotations": [{"long_answer": SECOND, "short_answers": [LISBON], "yes_no_answer": "NONE"}],
}
WIKIQA_HEAD = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n"
WIKIQA = (
    WIKIQA_HEAD
    + 'Q1\twhat is the capital\tD1\tPortugal\tD1-0\tIt is "a country .\t0\n'
    + "Q1\twhat is the capital\tD1\tPortugal\tD1-1\tIts capital is Lisbon .\t1\n"
    + "Q2\twho rules it\tD1\tPortugal\tD1-0\tIt is a country .\t0\n"
)
TRUTHFUL = (
    "Type,Category,Question,Best Answer,Correct Answers,Incorrect Answers,Source\n"
    'Adversarial,Places,What is the capital?,Lisbon,"Lisbon; ""Lisboa"", it is",Porto,none\n'
)
DPR = {
    "dataset": "nq_dev",
    "question": CAPITAL,
    "answers": ["Lisbon"],
    "positive_ctxs": [{"title": "Portugal", "text": "Lisbon.", "passage_id": "9"}],
    "negative_ctxs": [],
    "hard_negative_ctxs": [
        {"title": "Spain", "text": "Madrid.", "passage_id": "4"},
        {"title": "Portugal", "text": "Lisbon.", "passage_id": "9"},
    ],
}


def written(tmp_path, name, content):
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
        return path
    if name.endswith(".json"):
        return write_document(path, content)
    return write_lines(path, content)


@pytest.mark.parametrize(
    ("name", "content", "question", "answers", "gold", "kind"),
    [
        ("hotpot.json", [HOTPOT], CAPITAL, ("Lisbon",), (("Portugal",), ("Lisbon",)), "bridge"),
        (
            "musique.jsonl",
            [MUSIQUE],
            CAPITAL,
            ("Lisbon", "Lisboa"),
            (("2hop__1_2/1",),),
            "2hop",
        ),
        (
            "wikipedia-dev.json",
            {"Data": [TRIVIA], "Domain": "Wikipedia", "Version": 1.0},
            CAPITAL,
            ("Lisbon", "Lisboa", "City of Lisbon"),
            (),
            "WikipediaEntity",
        ),
        (
            "dev_v2.1.json",
            {name: {"0": value} for name, value in MS_MARCO.items()},
            CAPITAL,
            ("Lisbon", "The capital is Lisbon."),
            (("19/1",),),
            "LOCATION",
        ),
        (
            "nq-dev-00.jsonl.gz",
            [NATURAL],
            NATURAL["question_text"],
            ("Lisbon",),
            (("7/4",),),
            "short",
        ),
        (
            "WikiQA.tsv",
            WIKIQA,
            "what is the capital",
            ("Its capital is Lisbon .",),
            (("D1-1",),),
            "answerable",
        ),
        (
            "TruthfulQA.csv",
            TRUTHFUL,
            "What is the capital?",
            ("Lisbon", '"Lisboa", it is'),
            (),
            "Places",
        ),
        ("biencoder-nq-dev.json", [DPR], CAPITAL, ("Lisbon",), (("9",),), "nq_dev"),
        (
            "NQ-open.dev.jsonl",
            [{"question": CAPITAL, "answer": ["Lisbon", "Lisboa"]}],
            CAPITAL,
            ("Lisbon", "Lisboa"),
            (),
            "all",
        ),
        (
            "dev.jsonl",
            [{"id": "dev_0", "question": CAPITAL, "golden_answers": ["Lisbon"]}],
            CAPITAL,
            ("Lisbon",),
            (),
            "all",
        ),
        (
            "webquestions.examples.test.json",
            [
                {
                    "url": "http://www.example.org/portugal",
                    "targetValue": r'(list (description "A \"White\" City") (description Lisbon))',
                    "utterance": CAPITAL,
                }
            ],
            CAPITAL,
            ('A "White" City', "Lisbon"),
            (),
            "all",
        ),
        (
            "nq-test.qa.csv",
            "what is the capital\t['Lisbon', \"Lisboa\"]\n",
            "what is the capital",
            ("Lisbon", "Lisboa"),
            (),
            "all",
        ),
        (
            "apple_10k.csv",
            "query,expected_response,context,category,filename,source\n"
            'What were sales?,9 billion,"Sales were 9 billion,\nas stated.",factual,a.pdf,x\n',
            "What were sales?",
            ("9 billion",),
            (("apple_10k-1/context",),),
            "factual",
        ),
    ],
)
def test_a_published_format(tmp_path, name, content, question, answers, gold, kind):
    dataset = load_dataset(str(written(tmp_path, name, content)))
    first = dataset.questions[0]
    assert (first.question, first.answers, first.gold) == (question, answers, gold)
    assert first.kind == kind
    assert not dataset.is_graded_by_kind
    ids = {one.document_id for one in first.passages or ()}
    assert ids >= {name for group in gold for name in group}


def texts(question):
    return [(one.title, one.text) for one in question.passages]


def test_passages_are_the_sets_own(tmp_path):
    def load(name, content):
        return load_dataset(str(written(tmp_path, name, content))).questions

    (hotpot,) = load("hotpot.json", [HOTPOT])
    assert texts(hotpot)[1:] == [
        ("Portugal", "It is a country. Its capital is Lisbon."),
        ("Lisbon", "A city. It has a port."),
    ]
    (natural,) = load("nq.jsonl", [NATURAL])
    assert texts(natural) == [("", "Madrid ."), ("", "Its capital is Lisbon .")]
    assert len(load("dpr.json", [DPR])[0].passages) == 2
    wikiqa = load("WikiQA.tsv", WIKIQA)
    assert [len(one.passages) for one in wikiqa] == [2, 1]
    assert (wikiqa[1].answers, wikiqa[1].kind) == (("not in the notes",), "impossible")


def test_natural_questions_with_pages_of_tokens_and_several_annotators(tmp_path):
    tokens = [{"token": token, "html_token": token.startswith("<")} for token in TOKENS]
    long = {"long_answer": SECOND, "short_answers": [], "yes_no_answer": "NONE"}
    yes = long | {"yes_no_answer": "YES"}
    none = long | {"long_answer": NO_LONG}
    short = long | {"short_answers": [LISBON]}
    page = {name: value for name, value in NATURAL.items() if name != "document_text"}
    page |= {"document_tokens": tokens, "document_title": "Portugal"}
    rows = [
        page | {"annotations": people}
        for people in (
            [short, short, none, none, none],
            [yes, yes, short],
            [long, long, none],
            [short, none, none],
        )
    ]
    questions = load_dataset(str(write_lines(tmp_path / "nq.jsonl", rows))).questions
    assert [(one.kind, one.answers) for one in questions] == [
        ("short", ("Lisbon",)),
        ("yes/no", ("yes",)),
        ("long", ("Its capital is Lisbon .",)),
        ("impossible", ("not in the notes",)),
    ]
    assert texts(questions[0])[1] == ("Portugal", "Its capital is Lisbon .")
    assert [bool(one.gold) for one in questions] == [True, True, True, False]


def test_questions_that_the_passages_do_not_answer(tmp_path):
    marco = MS_MARCO | {"answers": ["No Answer Present."], "wellFormedAnswers": "[]"}
    musique = MUSIQUE | {"answerable": False}
    for rows, kind in (([marco], "impossible"), ([musique], "unanswerable")):
        (one,) = load_dataset(str(write_lines(tmp_path / "dev.jsonl", rows))).questions
        assert (one.answers, one.kind) == (("not in the notes",), kind)


HOLE = r"field 'Answer' must be there: the test files have none"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("h.json", [HOTPOT, HOTPOT | {"answer": None}], r"item 1: field 'answer' must be a str"),
        ("h.json", [HOTPOT | {"context": [["A", "text"]]}], r"'context' \[0\]: must be \[title,"),
        ("h.json", [HOTPOT | {"context": {"title": []}}], r"'context' must be a list of pairs"),
        ("m.jsonl", [MUSIQUE, MUSIQUE | {"answer": ""}], r"m.jsonl, line 2: field 'answer' is em"),
        ("t.json", {"Data": [{"Question": "q"}]}, rf"t.json, field 'Data'\[0\]: {HOLE}"),
        ("d.json", {"query": {"0": "q"}, "passages": {"1": []}}, r"'passages' has no entry '0'"),
        ("d.json", {"query": {"0": "q"}, "passages": {"0": 3}}, r"entry '0': field 'passages'"),
        ("d.jsonl", [MS_MARCO | {"answers": []}], r"'answers' must have at least one answer, or"),
        (
            "n.jsonl",
            [NATURAL, NATURAL | {"long_answer_candidates": [{"start_token": 4, "end_token": 99}]}],
            r"line 2, field 'long_answer_candidates'\[0\]: field 'end_token' must lie",
        ),
        (
            "w.tsv",
            WIKIQA.replace("\t1\n", "\tyes\n"),
            r'w.tsv, line 3: field \'Label\' must be 0 or 1, is "yes"',
        ),
        ("w.tsv", WIKIQA + "Q3\tshort\n", r"line 5: has 2 columns, the head has 7: QuestionID"),
        ("t.csv", TRUTHFUL + 'A,B,"C\n', r"t.csv, line 3: not CSV: unexpected end of data"),
        ("t.csv", TRUTHFUL + "A,B,C,,E,F,G\n", r"t.csv, line 3: field 'Best Answer' is empty"),
        ("t.csv", "a,b\n1,2\n", r"line 2: has none of these fields: QuestionID, SentenceID"),
        ("q.csv", "who\t['x']\nwhat\t['y'\n", r"q.csv, line 2: field \'answers\' must be a list"),
        ("q.json", [{"utterance": "q", "targetValue": "(x)"}], r"'targetValue' must be \(list"),
        ("q.jsonl", [{"question": "q", "answer": "one"}], r"'answer' must be a list of strings"),
        ("q.jsonl", [{"text": "q"}], r"none of these fields: ctxs \(CacheBlend\); .* it has text"),
        ("d.parquet", "PAR1", r"Parquet is not read; turn it into JSONL"),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        load_dataset(str(written(tmp_path, name, content)))


def test_real_questions_read_the_same_in_the_published_formats(tmp_path):
    """Real questions of three sets, written as their publishers write them."""
    rows = [row.fields for row in json_lines(real_file("mini_multihop"))]
    known = {one.id: one for one in load_dataset("mini_multihop").questions}
    hotpot, musique = [], []
    for row in rows:
        if row["dataset"] == "musique":
            paragraphs = [
                {"title": one["title"], "paragraph_text": one["text"], "is_supporting": one["gold"]}
                for one in row["passages"]
            ]
            first, *others = row["answers"]
            musique.append(
                {"id": row["id"], "question": row["question"], "paragraphs": paragraphs}
                | {"answer": first, "answer_aliases": others, "answerable": True}
            )
        else:
            hotpot.append(
                {"_id": row["id"], "question": row["question"], "answer": row["answers"][0]}
                | {
                    "type": row["type"],
                    "context": [[p["title"], [p["text"]]] for p in row["passages"]],
                }
                | {"supporting_facts": [[p["title"], 0] for p in row["passages"] if p["gold"]]}
            )
    files = (
        write_document(tmp_path / "hotpot.json", hotpot),
        write_lines(tmp_path / "musique.jsonl", musique),
    )
    questions = [one for path in files for one in load_dataset(str(path)).questions]
    assert len(questions) == len(known) == 60
    for one in questions:
        assert one.question == known[one.id].question
        assert one.answers[0] == known[one.id].answers[0]
        assert texts(one) == texts(known[one.id])
        assert len(one.gold) == len(known[one.id].gold)


def test_every_format_is_shown_by_name(tmp_path):
    path = write_lines(tmp_path / "q.jsonl", [json.dumps({"x": 1}) + "\n"])
    with pytest.raises(InputError) as error:
        load_dataset(str(path))
    assert all(name in str(error.value) for name in ("HotpotQA", "MuSiQue", "NQ-open", "FlashRAG"))
