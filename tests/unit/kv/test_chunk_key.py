"""Keys bind model, tenant, prefix and every chunk on the path, and the order of asking is fixed."""

import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.kv_reuse import PrimedWith
from heddle.kv.chunk_key import PATHS_MAX, HitKind, PromptKeys, chunk_digest
from heddle.kv.chunk_record import ChunkVariant, digest_of

PREFIX = (7, 8)


def keys_of(chunks, prefix=PREFIX, salt="", fingerprint="m"):
    keys = PromptKeys(fingerprint, salt, prefix)
    for chunk in chunks:
        keys.append(chunk, source=sum(chunk))
    return keys


def probes(chunks, index=-1, **options):
    keys = keys_of(chunks)
    return list(keys.probes(index % len(keys), **options))


def exact(chunks, **options):
    keys = keys_of(chunks, **options)
    return keys.exact_record(len(keys) - 1, 0).key


def test_the_longest_path_is_asked_for_first_then_ever_shorter_ones_then_the_content():
    a, b, c = (1, 2), (3,), (4, 5, 6)
    asked = probes([a, b, c])
    assert [p.kind for p in asked] == [
        HitKind.EXACT,
        HitKind.SUFFIX,
        HitKind.CANONICAL,
        HitKind.ALIAS,
    ]
    assert [p.key for p in asked[:3]] == [exact([a, b, c]), exact([b, c]), exact([c])]
    assert asked[3].key == chunk_digest("m", "", c)


def test_the_first_chunk_is_canonical_and_exact_at_once():
    assert [p.kind for p in probes([(1, 2)])] == [HitKind.EXACT, HitKind.ALIAS]
    keys = keys_of([(1, 2)])
    assert keys.canonical_record(0, 2) == keys.exact_record(0, 2)


def test_primed_kv_comes_after_exact_and_before_any_other_raw():
    keys = keys_of([(1,), (2,)])
    primed = keys.primed_record(1, 2)
    asked = list(keys.probes(1, primed=PrimedWith.PRECEDING))
    assert asked[0].kind is HitKind.EXACT
    assert [(p.key, p.kind) for p in asked[1:3]] == [
        (primed.key, HitKind.CANONICAL),
        (primed.alias, HitKind.ALIAS),
    ]
    assert asked[3:] == list(keys.probes(1))[1:]
    assert not {p.key for p in keys.probes(1)} & {primed.key, primed.alias}


def test_every_part_of_a_key_counts():
    a, b = (1, 2), (3,)
    base = exact([a, b])
    others = [
        exact([b, a]),
        exact([a, (3, 0)]),
        exact([(1,), b]),
        exact([(1, 2, 3)]),
        exact([a, b], prefix=(7,)),
        exact([a, b], salt="t"),
        exact([a, b], fingerprint="n"),
        exact([a, b], salt="m", fingerprint=""),
    ]
    assert len({base, *others}) == 1 + len(others)
    assert base == exact([list(a), list(b)])


def test_text_between_two_chunks_is_part_of_every_path_that_leads_across_it():
    def of(*between):
        keys = keys_of([(1,), (2,)])
        keys.append((3,), between=between)
        return [p for p in keys.probes(2, primed=PrimedWith.PRECEDING)]

    with_it, with_other, without = of(8, 9), of(8, 7), of()
    assert without == list(keys_of([(1,), (2,), (3,)]).probes(2, primed=PrimedWith.PRECEDING))
    for asked in (with_other, without):
        same = [p.kind for p, other in zip(with_it, asked, strict=True) if p == other]
        # Right behind the prefix, or primed, a chunk has not seen the text.
        assert same == [HitKind.CANONICAL, HitKind.ALIAS, HitKind.CANONICAL, HitKind.ALIAS]


def test_parts_do_not_run_into_each_other():
    assert digest_of(b"ab", b"c") != digest_of(b"a", b"bc")
    assert digest_of(b"a", b"") != digest_of(b"a")


def test_a_tenant_shares_no_key_with_another():
    def of(salt):
        keys = keys_of([(1,), (2,), (3,)], salt=salt)
        return {p.key for i in range(3) for p in keys.probes(i, primed=PrimedWith.PRECEDING)}

    assert not of("a") & of("b")


def test_of_a_public_chunk_a_tenant_finds_what_was_primed_and_nothing_of_other_requests():
    keys, public = PromptKeys("m", "a", PREFIX), keys_of([(1,), (2,)])
    for chunk in [(1,), (2,)]:
        keys.append(chunk, is_public=True)
    forms = (None, PrimedWith.PRECEDING)
    first, second = (
        {p.key: p.kind for p in keys.probes(i, primed=form)} for i, form in enumerate(forms)
    )
    assert first[public.canonical_record(0, 2).key] is HitKind.EXACT
    assert second[public.canonical_record(1, 2).key] is HitKind.CANONICAL
    primed = public.primed_record(1, 2)
    assert (second[primed.key], second[primed.alias]) == (HitKind.CANONICAL, HitKind.ALIAS)
    captured = {public.exact_record(1, 2).key, public.approximate_record(1, 2).key}
    assert not captured & (first.keys() | second.keys())


def test_what_a_tenant_computes_of_a_public_chunk_is_its_own():
    keys, public = PromptKeys("m", "a", PREFIX), keys_of([(1,), (2,)])
    for chunk in [(1,), (2,)]:
        keys.append(chunk, is_public=True)
    everybodys = {p.key for i in range(2) for p in public.probes(i, primed=PrimedWith.PRECEDING)}
    for index in range(2):
        for record in (keys.exact_record(index, 2), keys.approximate_record(index, 2)):
            assert not {record.key, record.alias} & everybodys
            assert record.context == public.chunks[:index], "a chunk has one name in all contexts"


def test_approximate_kv_has_no_path():
    keys = keys_of([(1,), (2,)])
    record = keys.approximate_record(1, 9)
    assert record.key == record.alias == keys.chunks[1]
    assert record.context == (keys.chunks[0],)
    paths = [p.key for p in keys.probes(1) if p.kind is not HitKind.ALIAS]
    assert record.key not in paths


def test_records_name_what_their_values_have_seen():
    keys = keys_of([(1,), (2,), (3, 3)])
    assert keys.exact_record(2, 5).context == (keys.chunks[0], keys.chunks[1])
    assert keys.canonical_record(2, 5).context == ()
    primed = keys.primed_record(2, 5)
    before = (keys.chunks[0], keys.chunks[1])
    assert (primed.context, primed.variant) == (before, ChunkVariant.PRIMED)
    assert (primed.tokens, primed.base, primed.chunk) == (2, 5, keys.chunks[2])


def test_kv_primed_with_other_neighbours_is_never_found_in_its_place():
    keys = keys_of([(1,), (2,)])
    forms = tuple(PrimedWith)
    records = [keys.primed_record(1, 2, form) for form in forms]
    asked = [{p.key for p in keys.probes(1, primed=form)} for form in forms]
    for record, own, other in zip(records, asked, reversed(asked), strict=True):
        assert own >= {record.key, record.alias}
        assert not other & {record.key, record.alias}


def test_kv_primed_in_another_collection_is_never_found_in_its_place():
    def of(collection):
        keys = PromptKeys("m", "", PREFIX)
        for chunk in [(1,), (2,)]:
            keys.append(chunk, collection=collection)
        primed = keys.primed_record(1, 2)
        asked = {p.key for p in keys.probes(1, primed=PrimedWith.PRECEDING)}
        assert asked >= {primed.key, primed.alias}
        raw = {p.key for p in keys.probes(1)}
        return {primed.key, primed.alias}, asked - raw, raw

    (one, asked_in_one, raw_in_one), (other, asked_in_other, raw_in_other) = of("a"), of("b")
    default, asked_in_default, raw = of("")
    assert not one & (asked_in_other | asked_in_default)
    assert not other & (asked_in_one | asked_in_default)
    assert not default & (asked_in_one | asked_in_other)
    assert raw_in_one == raw_in_other == raw, "what saw no neighbours is one"


def test_records_name_the_corpus_s_chunks_that_their_values_have_seen():
    keys = keys_of([(1,), (2,), (3, 3)])
    assert keys.exact_record(2, 5).sources == (6, 1, 2)
    assert keys.approximate_record(1, 5).sources == (2, 1)
    assert keys.primed_record(2, 5).sources == (6, 1, 2)
    assert keys.canonical_record(2, 5).sources == (6,)
    keys.append((9,))  # of no corpus
    assert keys.exact_record(3, 5).sources == (1, 2, 6)
    twice = keys_of([(1,), (1,)])
    assert twice.exact_record(1, 1).sources == (1,)


def test_what_attended_reused_kv_names_what_that_has_seen():
    keys, primed = keys_of([(1,), (2,), (3, 3)]), keys_of([(8,), (2,)])
    behind = keys_of([(5,), (3, 3)])
    reused = {1: primed.primed_record(1, 2), 2: behind.exact_record(1, 2)}
    assert reused[1].sources == (2, 8)
    record = keys.approximate_record(2, 5, reused)
    assert record.sources == (6, 1, 2, 8), "its own old KV is not what it was computed on"
    assert record.context == keys.chunks[:2]
    assert keys.approximate_record(0, 5, reused).sources == (1,)


def test_kv_behind_the_prefix_alone_is_asked_for_by_one_key():
    keys = keys_of([(1,), (2,)])
    assert keys.canonical_probe(1) == (keys.canonical_record(1, 0).key, HitKind.CANONICAL)


def test_the_same_chunk_twice_and_an_empty_chunk_have_keys_of_their_own():
    keys = keys_of([(1,), (1,), ()])
    assert keys.exact_record(0, 0).key != keys.exact_record(1, 0).key
    assert keys.canonical_record(0, 0).key == keys.canonical_record(1, 0).key
    assert len({p.key for p in keys.probes(2)}) == 4


def test_a_long_prompt_keeps_its_exact_path_and_the_latest_starts():
    chunks = [(i,) for i in range(PATHS_MAX + 10)]
    asked = probes(chunks)
    assert len(asked) == PATHS_MAX + 1
    assert asked[0].key == exact(chunks) != exact([(99,), *chunks[1:]])
    assert asked[1].key == exact(chunks[-(PATHS_MAX - 1) :])
    assert asked[-2].key == exact(chunks[-1:])


def test_keys_are_the_same_in_another_process():
    code = (
        "from heddle.core.kv_reuse import PrimedWith\n"
        "from heddle.kv.chunk_key import PromptKeys\n"
        "k = PromptKeys('m', 's', (7, 8)); k.append((1, 2)); k.append((3,))\n"
        "print(*(p.key.hex() for p in k.probes(1, primed=PrimedWith.PRECEDING)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = keys_of([(1, 2), (3,)], salt="s").probes(1, primed=PrimedWith.PRECEDING)
    assert done.stdout.split() == [p.key.hex() for p in here]


tokens = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@settings(max_examples=80, derandomize=True)
@given(st.lists(tokens, min_size=1, max_size=6), st.lists(tokens, min_size=1, max_size=6))
def test_two_prompts_share_a_path_exactly_where_their_chunks_agree(one, other):
    def paths(chunks):
        keys = keys_of(chunks)
        last = len(chunks) - 1
        named = (p.key for p in keys.probes(last) if p.kind is not HitKind.ALIAS)
        return dict(zip(named, (tuple(chunks[j:]) for j in range(len(chunks))), strict=True))

    mine, theirs = paths(one), paths(other)
    assert {mine[k] for k in mine.keys() & theirs.keys()} == set(mine.values()) & set(
        theirs.values()
    )
