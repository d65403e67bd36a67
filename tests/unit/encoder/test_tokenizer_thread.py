"""The thread that tokenises: on its own cores, in order, with the errors of its calls."""

import os

import pytest

from heddle.encoder.tokenized_text import TokenizedText
from heddle.encoder.tokenizer_thread import TokenizerThread


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are pinned on Linux only")
def test_it_stays_on_its_cores_and_leaves_others_where_they_are() -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    thread = TokenizerThread(
        lambda texts: [TokenizedText(sorted(os.sched_getaffinity(0))) for _ in texts], (core,)
    )
    assert [text.token_ids for text in thread(["a", "b"])] == [[core], [core]]
    assert os.sched_getaffinity(0) == before
    thread.close()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are pinned on Linux only")
def test_cores_that_are_gone_stop_no_text(caplog: pytest.LogCaptureFixture) -> None:
    gone = max(os.sched_getaffinity(0)) + (os.cpu_count() or 1)
    thread = TokenizerThread(lambda texts: [TokenizedText([len(text)]) for text in texts], (gone,))
    assert thread(["a", "bc"]) == [TokenizedText([1]), TokenizedText([2])]
    thread.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"cores {gone} can't be used" in caplog.text


def test_an_error_comes_back_from_its_call_and_the_next_one_works() -> None:
    def tokenize(texts: list[str]) -> list[TokenizedText]:
        return [TokenizedText([1 // len(text)]) for text in texts]

    thread = TokenizerThread(tokenize)
    failed, fine = thread.start([""]), thread.start(["a"])
    with pytest.raises(ZeroDivisionError):
        failed.result()
    assert fine.result() == [TokenizedText([1])]
    thread.close()
