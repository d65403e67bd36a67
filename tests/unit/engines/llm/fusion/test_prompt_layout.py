from heddle.core.payloads import Segment, SegmentRole
from heddle.engines.llm.fusion.prompt_layout import ChunkSpan, layout_of

CHUNK = SegmentRole.CHUNK


def test_prefix_chunks_and_question_follow_one_another():
    layout = layout_of(
        [Segment((1, 2)), Segment((3, 4, 5), CHUNK), Segment((6,), CHUNK), Segment((7, 8))]
    )

    assert layout is not None
    assert layout.prefix_stop == 2
    assert layout.chunks == (ChunkSpan(2, 5, (3, 4, 5)), ChunkSpan(5, 6, (6,)))
    assert (layout.question_start, layout.tokens, layout.has_question) == (6, 8, True)


def test_text_between_chunks_and_empty_chunks_belong_to_no_chunk():
    layout = layout_of(
        [
            Segment((1,), CHUNK),
            Segment((2, 3)),
            Segment((), CHUNK),
            Segment((4,), CHUNK),
            Segment((5,)),
        ]
    )

    assert layout is not None
    assert [(c.start, c.stop) for c in layout.chunks] == [(0, 1), (3, 4)]
    assert layout.prefix_stop == 0


def test_without_a_chunk_there_is_no_layout_and_without_a_question_it_says_so():
    assert layout_of([Segment((1, 2)), Segment((3,))]) is None
    assert layout_of([Segment((1, 2)), Segment((), CHUNK)]) is None
    layout = layout_of([Segment((1, 2)), Segment((3,), CHUNK), Segment(())])
    assert layout is not None
    assert not layout.has_question
