"""What engines tell of their state beside their load: the names in a frame's `gauges`."""

from typing import Final

KV_PAGES_HELD: Final = "kv_pages_held"  # by a sequence
KV_PAGES_CACHED: Final = "kv_pages_cached"  # by nobody, but their content may be wanted again
KV_PAGES_FREE: Final = "kv_pages_free"
INDEX_REVISION: Final = "index_revision"  # of the corpus, that the index covers
INDEX_VECTORS: Final = "index_vectors"
POOL_RUNNING: Final = "pool_running"  # searches in a slot of a vector pool
POOL_FREE: Final = "pool_free"  # its slots that nobody runs in
POOL_WAITING: Final = "pool_waiting"  # searches that wait for one, parked ones included
