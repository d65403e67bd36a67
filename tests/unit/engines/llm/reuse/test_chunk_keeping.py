from heddle.engines.llm.reuse.chunk_keeping import CHUNKS_KEPT, EVIDENCE, ChunkKeeping


def shown(keeping, *chunks):
    """Return which of these chunks were missing before, none of them stored."""
    return [keeping.note(b"%d" % chunk, is_stored=False) for chunk in chunks]


def test_new_chunks_are_stored_until_it_is_known_how_many_come_again():
    keeping = ChunkKeeping()
    keeping.took(100, 0.1)
    shown(keeping, *range(int(EVIDENCE)))
    assert keeping.pays_for_new(1.0)
    shown(keeping, 1000, 1001, 1002, 1003)
    assert not keeping.pays_for_new(1.0)


def test_it_pays_while_enough_of_them_come_again():
    keeping = ChunkKeeping()
    keeping.took(100, 0.1)  # a token 1 ms, and as long for the writer
    for start in range(0, 1000, 10):
        shown(keeping, *range(start, start + 10), *range(start, start + 5))  # every other one
    assert keeping.pays_for_new(0.0041)
    assert not keeping.pays_for_new(0.0039)


def test_a_chunk_that_was_missing_is_known_even_if_it_was_not_stored():
    keeping = ChunkKeeping()
    assert shown(keeping, 1, 2, 1) == [False, False, True]
    assert keeping.note(b"2", is_stored=True)
    assert not keeping.note(b"3", is_stored=True)  # made ahead, by priming: no prompt stores it


def test_only_so_many_are_known():
    keeping = ChunkKeeping()
    shown(keeping, *range(CHUNKS_KEPT + 1))
    assert shown(keeping, 0, CHUNKS_KEPT) == [False, True]
