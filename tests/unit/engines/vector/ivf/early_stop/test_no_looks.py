"""An index says beforehand where a promised recall could save nothing."""

import pytest

from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.files.manifest import IndexManifest
from heddle.engines.vector.ivf.early_stop.no_looks import why_never, why_never_of


@pytest.mark.parametrize(
    ("kind", "count", "nlist", "nprobe", "may"),
    [
        (IndexKind.PQ, 46_000, 429, None, False),  # 96 lists of 107 codes: less than one look
        (IndexKind.PQ, 20_000_000, 8_192, None, True),
        (IndexKind.FLAT, 2_716, 104, None, False),
        (IndexKind.FLAT, 15_000, 244, None, True),
        (IndexKind.PANORAMA, 46_000, 429, None, True),
        (IndexKind.PANORAMA, 46_000, 429, 4, False),
    ],
)
def test_an_index_whose_scan_is_shorter_than_a_look_never_stops(kind, count, nlist, nprobe, may):
    why = why_never(kind, count, nlist, nprobe)
    assert (not why) is may
    if why:
        assert "a promised recall saves nothing here" in why
        assert kind.value in why
        assert "--index-kind exact" in why


def test_a_manifest_says_the_same():
    manifest = IndexManifest("f", 1, "", 429, 46_000, 384, "e", "pq", "auto", "r", "")
    assert why_never_of(manifest, None) == why_never(IndexKind.PQ, 46_000, 429, None)
    assert "96 lists of the pq index, about 10,294 vectors" in why_never_of(manifest, None)
