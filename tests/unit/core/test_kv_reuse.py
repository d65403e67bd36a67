import pytest

from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import (
    FULL_ATTENTION,
    KvReuse,
    PrimedWith,
    QuestionPass,
    ReusePolicy,
    kv_reuse_of,
)

WITH_CONTEXT = QuestionPass.WITH_CONTEXT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("full", FULL_ATTENTION),
        ("fusionrag", KvReuse(ReusePolicy.FUSIONRAG, 0.15)),
        ("epic,0.3", KvReuse(ReusePolicy.EPIC, 0.3)),
        ("cachecraft, auto", KvReuse(ReusePolicy.CACHECRAFT, "auto")),
        ("cachecraft_fixed,0,raw", KvReuse(ReusePolicy.CACHECRAFT_FIXED, 0.0, primed=False)),
        ("fusionrag,with_context", KvReuse(ReusePolicy.FUSIONRAG, 0.15, True, WITH_CONTEXT)),
        (
            "cachecraft,0.2,nearest",
            KvReuse(ReusePolicy.CACHECRAFT, 0.2, primed_with=PrimedWith.NEAREST),
        ),
        ("fusionrag,0.15,always", KvReuse(ReusePolicy.FUSIONRAG, 0.15, always=True)),
        ("cacheblend,1,legacy_mask", KvReuse(ReusePolicy.CACHEBLEND, 1.0, legacy_mask=True)),
    ],
)
def test_a_text_says_policy_ratio_and_options(text, expected):
    assert kv_reuse_of(text) == expected
    assert kv_reuse_of(expected) is expected
    assert kv_reuse_of(str(expected)) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "fusion",
            "kv_reuse: policy 'fusion' is unknown; write POLICY.*fixed.*raw, nearest, with",
        ),
        ("epic,half", "kv_reuse: 'half' is no ratio or option; write POLICY"),
        ("epic,1.5", "kv_reuse.ratio is 1.5; it is a share of tokens, from 0 to 1, or 'auto'"),
        ("epic,nan", "kv_reuse.ratio is nan"),
        ("", "kv_reuse: policy '' is unknown"),
        (
            "fusionrag,legacy_mask",
            "kv_reuse.legacy_mask is an option of cacheblend, not of fusionrag",
        ),
        (
            "cacheblend,with_context",
            "kv_reuse.question 'with_context' is an option of fusionrag, not of cacheblend",
        ),
        (
            "epic,raw,nearest",
            "kv_reuse.primed_with 'nearest' says which primed KV to use, and raw leaves",
        ),
        (0.15, "kv_reuse is 0.15; give a KvReuse, or POLICY"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(value, message):
    with pytest.raises(ConfigError, match=message):
        kv_reuse_of(value)


def test_a_ratio_is_a_share_or_auto():
    with pytest.raises(ConfigError, match=r"kv_reuse\.ratio is 'Auto'"):
        KvReuse(ReusePolicy.EPIC, "Auto")
    assert KvReuse(ReusePolicy.EPIC, 1).ratio == 1


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("fusionrag", True),
        ("fusionrag,auto,raw", True),
        ("fusionrag,with_context", False),
        ("fusionrag,0", False),
        ("fusionrag,1", False),
        ("epic,0.15", False),
        ("full", False),
    ],
)
def test_a_question_asks_alone_where_it_selects_by_itself(text, asks):
    assert kv_reuse_of(text).asks_alone is asks
