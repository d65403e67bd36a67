"""What is held for prompts that may come: bounded, shared, the oldest prompt's first."""

from heddle.kv.loads_ahead import LoadsAhead

A, B, C = b"a", b"b", b"c"
ALL = frozenset((A, B, C))


def test_what_has_no_room_is_neither_held_nor_read():
    it = LoadsAhead(bytes_max=25)
    it.hold(1, {A: 10, B: 10, C: 10}, ALL)
    assert [key in it for key in (A, B, C)] == [True, True, False]
    assert [it.next(), it.next(), it.next()] == [(1, A), (1, B), None]


def test_an_entry_is_held_once_until_the_last_prompt_lets_it_go():
    it = LoadsAhead(bytes_max=25)
    it.hold(1, {A: 10}, ALL)
    it.hold(2, {A: 10, B: 10}, frozenset({B}))
    assert it.bytes_held == 20
    assert [it.next(), it.next()] == [(1, A), (2, B)]
    it.begin(2, B)
    assert (it.drop(1), it.bytes_held) == (frozenset(), 20)
    assert (it.drop(2), it.bytes_held) == ({B}, 0)
    assert it.drop(2) == frozenset()


def test_other_entries_of_a_prompt_take_the_place_of_the_first_ones():
    it = LoadsAhead(bytes_max=25)
    it.hold(1, {A: 10, B: 10}, ALL)
    it.begin(*it.next())
    it.hold(1, {C: 10}, ALL)
    assert (B in it, it.bytes_held) == (False, 10)
    assert [it.next(), it.next()] == [(1, C), None]
    it.begin(1, C)
    assert it.drop(1) == {A, C}, "what was read for it, right or wrong"
