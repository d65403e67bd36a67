"""Ten dialogues of two turns over Python's own documentation: a follow-up finds its subject."""

from pathlib import Path

import pytest

from heddle import Answer, Server
from heddle.app.chat.conversation import Conversation
from tests.helpers.tiny_server import index_documents

topics = pytest.importorskip("pydoc_data.topics").topics
DIALOGUES = [
    ("assert", "What does the assert statement do?", "What is it equivalent to?"),
    ("del", "What does the del statement remove?", "In which order?"),
    ("global", "What does the global statement mean?", "What may not follow it?"),
    ("yield", "What is a yield statement equivalent to?", "Where are they used?"),
    ("while", "What is the while statement used for?", "What does its else clause do?"),
    ("pass", "What is the pass statement?", "When is it useful?"),
    ("lambda", "What do lambda expressions create?", "What can they not contain?"),
    ("slicings", "What does a slicing select?", "Where may they be used?"),
    ("integers", "What do integer literals look like?", "How long can they be?"),
    ("break", "Where may the break statement occur?", "What does it terminate?"),
]
OTHERS = ("if", "for", "import", "return", "raise", "with", "try", "imaginary", "continue", "in")


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("python")
    for name in {*OTHERS, *(topic for topic, _, _ in DIALOGUES)}:
        if name in topics:
            (folder / f"{name}.rst").write_text(topics[name], encoding="utf-8")
    corpus = index_documents([folder], tmp_path_factory.mktemp("indexed") / "corpus")
    with Server(index=corpus, engine_host="inline") as server:
        yield server


def named(answer: Answer) -> list[str]:
    quotations = answer.quotes or answer.nearest
    return [Path(one.passage.document_id).stem for one in quotations]


def test_follow_ups_find_the_subject_of_the_question_before(documented: Server):
    app = documented.app("quote")
    found, alone = [], []
    for topic, first, second in DIALOGUES:
        conversation = Conversation(app.stream)
        list(conversation.say(first))
        *_, answer = conversation.say(second)
        found.append(topic in named(answer)[:1])
        alone.append(topic in named(app.invoke(second))[:1])
    print(f"{sum(found)} of 10 with the conversation, {sum(alone)} without")
    assert sum(found) >= 8
    assert sum(found) > sum(alone)
