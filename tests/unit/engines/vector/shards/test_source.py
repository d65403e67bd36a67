"""Parts of a corpus: together the whole, each alone a source that an index follows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.core.search_scope import EVERYBODYS, SearchScope
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.shards.part import WHOLE, Part
from heddle.engines.vector.shards.source import ShardSource


@given(count=st.integers(0, 60), of=st.integers(1, 5), batch_rows=st.integers(1, 9))
def test_parts_together_are_the_corpus(tools, count, of, batch_rows):
    source = tools.Source(tools.clustered(60)[:count])
    parts = [ShardSource(source, Part(number, of)) for number in range(of)]
    seen = []
    for part in parts:
        batches = list(part.vectors(0, batch_rows))
        assert all(len(batch.chunk_ids) == batch_rows for batch in batches[:-1])
        assert all(0 < len(batch.chunk_ids) <= batch_rows for batch in batches)
        mine = [chunk_id for batch in batches for chunk_id in batch.chunk_ids.tolist()]
        assert len(mine) == part.vector_count
        for batch in batches:
            for chunk_id, vector in zip(batch.chunk_ids, batch.vectors, strict=True):
                np.testing.assert_array_equal(vector, source.rows[int(chunk_id)][1])
        seen += mine
    assert sorted(seen) == sorted(source.rows)


def test_an_index_follows_its_part(tools):
    vectors = tools.clustered(300)
    source = tools.Source(vectors[:200])
    part = ShardSource(source, Part(1, 3))
    live = LiveIndex.build(part)
    source.store_vectors(range(201, 301), vectors[200:])
    source.delete([1, 2, 4])
    live.follow(part)
    assert (live.count, live.revision) == (98, source.revision)
    assert part.vector_count == 98
    assert part.deleted(2).tolist() == [1, 4]


def test_a_scope_and_what_is_stored(tools):
    source = tools.Source(tools.clustered(20))
    source.metadata["owner", "me"] = [3, 6, 7]
    part = ShardSource(source, Part(0, 3))
    assert part.allowed(EVERYBODYS) is None
    assert part.allowed(SearchScope(where=(("owner", ("me",)),))).tolist() == [3, 6]
    part.store_vectors([100], tools.clustered(1))
    assert 100 in source.rows
    assert (part.dims, part.embedder, part.revision) == (tools.dims, source.embedder, 2)


def test_parts_have_folders_of_their_own(tmp_path):
    assert WHOLE.directory(tmp_path) == tmp_path
    assert Part(1, 2).directory(tmp_path) == tmp_path / "shards" / "1-of-2"
    for number, of in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ConfigError, match="shard"):
            Part(number, of)
