"""Pages go to sequences and come back, and are found again by the tokens that they hold."""

import pytest

from heddle.core.payloads import Segment
from heddle.core.tasks import Priority
from heddle.engines.llm.kv_cache import KvCache
from heddle.engines.llm.sequence import Sequence

PAGE = 4
TEXT = tuple(range(3, 40))


@pytest.fixture
def cache():
    return KvCache(page_count=8, page_size=PAGE, fingerprint="m")


def sequence_of(cache, tokens, salt="", **more):
    """Return a sequence whose prompt is known and not computed yet."""
    made = Sequence(
        id=1,
        arrival=1,
        rank=0.0,
        priority=Priority.NORMAL,
        salt=salt,
        segments=[Segment(tuple(tokens))],
        row=cache.new_row(),
        chain=cache.new_chain(salt),
        **more,
    )
    made.token_ids = list(tokens)
    made.num_prompt_tokens = len(made.token_ids)
    return made


def computed(cache, tokens, **more):
    """Return a sequence whose tokens are all computed, on pages of its own or cached ones."""
    made = sequence_of(cache, tokens, **more)
    cache.reuse_prefix(made)
    reach(cache, made)
    made.num_computed_tokens = len(made.token_ids)
    cache.publish(made)
    return made


def reach(cache, sequence):
    shortage = cache.shortage(sequence)
    if shortage is not None:
        assert cache.ledger.make_room(shortage.pages)
        cache.give(sequence, shortage)


def test_a_sequence_lacks_pages_for_the_tokens_that_have_none(cache):
    sequence = sequence_of(cache, TEXT[:9])
    assert cache.shortage(sequence).pages == 3
    reach(cache, sequence)
    assert cache.shortage(sequence) is None
    sequence.token_ids += [1, 1, 1]
    assert cache.shortage(sequence) is None, "its last page has room for three more"
    sequence.token_ids.append(1)
    assert cache.shortage(sequence).pages == 1
    cache.check([sequence])


def test_full_pages_are_found_by_the_same_tokens_of_the_same_tenant(cache):
    first = computed(cache, TEXT[:10], salt="a")
    same, other = (sequence_of(cache, TEXT[:12], salt=salt) for salt in "ab")
    assert [cache.cached_tokens(s, s.token_ids) for s in (same, other)] == [8, 0]
    for sequence in (same, other):
        cache.reuse_prefix(sequence)
    assert same.row.pages == first.row.pages[:2]
    assert (same.num_computed_tokens, same.num_reused_tokens) == (8, 8)
    assert other.row.is_empty
    cache.check([first, same, other])


def test_the_last_token_is_never_read_from_a_cached_page(cache):
    computed(cache, TEXT[:8])
    again = sequence_of(cache, TEXT[:8])
    cache.reuse_prefix(again)
    assert again.num_computed_tokens == 4


def test_only_exact_kv_is_published(cache):
    first = computed(cache, TEXT[:12], num_exact_tokens_max=7)
    assert first.num_published_pages == 1
    secret = computed(cache, TEXT[20:32], may_reuse=False)
    assert secret.num_published_pages == 0
    found = [sequence_of(cache, tokens) for tokens in (TEXT[:12], TEXT[20:32])]
    assert [cache.cached_tokens(s, s.token_ids) for s in found] == [4, 0]


@pytest.mark.parametrize(("is_found_by_others", "kept"), [(True, 4), (False, 6)])
def test_a_cut_within_a_page_that_others_may_find_drops_the_page(cache, is_found_by_others, kept):
    sequence = computed(cache, TEXT[:8], may_reuse=is_found_by_others)
    cache.rewind(sequence, 6)
    assert sequence.num_computed_tokens == kept
    assert len(sequence.row.pages) == -(-kept // PAGE)
    cache.check([sequence])


def test_dropped_pages_stay_as_a_cache_until_room_is_made(cache):
    first = computed(cache, TEXT[:10])
    cache.drop(first)
    assert first.row.is_empty
    assert first.num_computed_tokens == first.num_published_pages == 0
    ledger = cache.ledger
    assert (ledger.held_count, ledger.idle_count, ledger.free_count) == (0, 2, 6)
    assert cache.cached_tokens(first, list(TEXT[:10])) == 8
    assert ledger.make_room(8)
    assert cache.cached_tokens(sequence_of(cache, TEXT[:10]), list(TEXT[:10])) == 0
    cache.check([])


def test_drafted_tokens_get_what_is_free_and_no_more(cache):
    first, other = computed(cache, TEXT[:6]), computed(cache, TEXT[10:30], may_reuse=False)
    assert cache.room_behind(first, 2) == 2, "its last page has room"
    assert cache.room_behind(first, 5) == 5
    assert len(first.row.pages) == 3
    cache.ledger.allocate(cache.ledger.free_count)
    assert cache.room_behind(first, 15) == 6, "the pages of others stay theirs"
    assert len(other.row.pages) == 5
