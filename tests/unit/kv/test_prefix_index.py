"""Pages are found by all tokens before them, by model and by tenant, and by nothing less."""

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.kv.page_ledger import PageLedger
from heddle.kv.prefix_index import PageChain, PrefixIndex

PAGE = 4


def digests(token_ids, salt="", fingerprint="m"):
    return list(PageChain(fingerprint, salt, PAGE).extend(token_ids, len(token_ids) // PAGE))


def stored(index, ledger, token_ids, salt=""):
    """Publish a prompt's full pages, as a sequence that has ended."""
    pages = ledger.allocate(len(token_ids) // PAGE)
    for digest, page in zip(digests(token_ids, salt), pages, strict=True):
        index.publish(digest, page)
    ledger.release(pages[::-1])
    return pages


def test_a_digest_binds_model_tenant_and_every_token_before():
    base = digests([1, 2, 3, 4, 5, 6, 7, 8])
    assert digests([1, 2, 3, 4, 5, 6, 7, 9])[0] == base[0]
    assert digests([1, 2, 3, 4, 5, 6, 7, 9])[1] != base[1]
    assert digests([0, 2, 3, 4, 5, 6, 7, 8])[1] != base[1]
    assert digests([1, 2, 3, 4, 5, 6, 7, 8], salt="t")[0] != base[0]
    assert digests([1, 2, 3, 4, 5, 6, 7, 8], fingerprint="n")[0] != base[0]
    # Fingerprint and salt do not run into each other.
    assert digests([1, 2, 3, 4], "b", "a") != digests([1, 2, 3, 4], "", "ab")


def test_a_truncated_chain_goes_on_with_other_tokens():
    chain = PageChain("m", "", PAGE)
    assert len(list(chain.extend([1, 2, 3, 4, 5, 6, 7, 8], 2))) == 2
    chain.truncate(1)
    assert list(chain.extend([1, 2, 3, 4, 9, 9, 9, 9], 2)) == digests([1, 2, 3, 4, 9, 9, 9, 9])


def test_a_tenant_never_sees_anothers_pages():
    ledger = PageLedger(8, PAGE)
    index = PrefixIndex(ledger)
    stored(index, ledger, [1, 2, 3, 4], salt="a")
    assert index.match(digests([1, 2, 3, 4], "b")) == []
    assert len(index.match(digests([1, 2, 3, 4], "a"))) == 1


def test_nothing_is_digested_after_the_first_page_that_is_unknown():
    ledger = PageLedger(8, PAGE)
    index = PrefixIndex(ledger)
    stored(index, ledger, [1, 2, 3, 4])
    chain = PageChain("m", "", PAGE).extend([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 3)
    assert len(index.match(chain)) == 1
    assert len(list(chain)) == 1, "the third page's digest was made already"


def test_eviction_takes_the_end_of_a_prefix_first_and_spares_the_held():
    ledger = PageLedger(4, PAGE)
    index = PrefixIndex(ledger)
    tokens = list(range(12))
    pages = stored(index, ledger, tokens)
    assert ledger.make_room(2)
    assert index.match(digests(tokens)) == pages[:2]
    assert not ledger.make_room(3), "held pages were counted as room"
    assert ledger.make_room(2)
    ledger.check()


def test_the_first_page_of_a_digest_stays():
    ledger = PageLedger(8, PAGE)
    index = PrefixIndex(ledger)
    first = stored(index, ledger, [1, 2, 3, 4])
    stored(index, ledger, [1, 2, 3, 4])
    assert index.match(digests([1, 2, 3, 4])) == first
    assert len(index) == 1
    assert ledger.free_count == 7


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 2), max_size=16)), max_size=25
    )
)
def test_matches_are_the_longest_prefix_of_a_reference_dict(prompts):
    ledger = PageLedger(400, PAGE)
    index = PrefixIndex(ledger)
    known: dict[tuple[str, tuple[int, ...]], int] = {}
    for salt, tokens in prompts:
        chain = digests(tokens, salt)
        prefixes = [(salt, tuple(tokens[: (i + 1) * PAGE])) for i in range(len(chain))]
        expected = []
        for prefix in prefixes:
            if prefix not in known:
                break
            expected.append(known[prefix])
        pages = index.match(chain)
        assert pages == expected
        pages += ledger.allocate(len(chain) - len(pages))
        for prefix, digest, page in zip(prefixes, chain, pages, strict=True):
            index.publish(digest, page)
            known.setdefault(prefix, page)
        ledger.release(pages[::-1])
        ledger.check()
